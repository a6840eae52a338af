// What is in a folder when the power goes at any moment of several saves.
#include "tests/checkpoint/power_loss.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <set>

#include "lockstep/base/error.h"
#include "tests/checkpoint/two_saved.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kSaves = 4;
constexpr std::size_t kMost = 128;  // States for each moment, times the four kinds of contents.

// A folder, and how many operations there were when each save returned.
struct SavedWithLog {
  explicit SavedWithLog(const PowerLossFiles::Options& options) : files(options) {
    Folder saved(folder.path, files);
    for (int i = 1; i <= kSaves; ++i) {
      saved.save(small_checkpoint(static_cast<float>(i)), {.best = i % 2 == 0});
      returned.push_back(files.operations());
    }
  }

  test::TemporaryFolder folder;
  PowerLossFiles files;
  std::vector<std::size_t> returned;
};

// Thousands of saves would wait for the disk.
class WithoutSync : public FileSystem {
 public:
  int fsync(int /*file*/) override { return 0; }
};

// What is wrong with it; empty if nothing is. `newest` had been saved, and the one behind it
// perhaps.
std::string fault_of(const LeftFiles& left, float newest) {
  const test::TemporaryFolder folder;
  for (const auto& [name, content] : left) {
    (void)folder.write(name, content);
  }
  try {
    const auto loaded = load_newest(folder.path);
    const float version = version_in(loaded.document);
    if (version != newest && version != newest + 1) {
      return "version " + std::to_string(version);
    }
    if (!loaded.reason.empty()) {
      return "passed over: " + loaded.reason;
    }
    for (const char* name : {"prev.pt", "best.pt"}) {
      if (left.contains(name)) {
        (void)version_of(folder.path + "/" + name);
      }
    }
    WithoutSync files;
    Folder(folder.path, files).save(small_checkpoint(9));  // As the restarted run does.
    if (version_of(folder.path + "/last.pt") != 9) {
      return "the next save is not there";
    }
  } catch (const IoError& error) {
    return std::string("error: ") + error.what();
  }
  for (const std::string& name : folder.names()) {
    if (name.starts_with('.')) {
      return "left behind: " + name;
    }
  }
  return "";
}

struct Losses {
  std::size_t states = 0;  // That differ from each other.
  std::vector<std::string> faults;
};

// Looks at no further state once a fault has the text `enough` in it; without one, at all of them.
Losses lose_power_at_each_moment(const SavedWithLog& saved,
                                 const std::optional<std::string>& enough = std::nullopt) {
  Losses losses;
  bool is_done = false;
  std::set<std::pair<float, LeftFiles>> seen;
  for (std::size_t at = saved.returned.front(); at <= saved.returned.back(); ++at) {
    const auto newest = static_cast<float>(
        std::ranges::count_if(saved.returned, [&](std::size_t end) { return end <= at; }));
    saved.files.each_left(at, kMost, [&](const LeftFiles& left) {
      if (!is_done && seen.emplace(newest, left).second) {
        const std::string fault = fault_of(left, newest);
        if (!fault.empty()) {
          losses.faults.push_back("after operation " + std::to_string(at) + ": " + fault);
          is_done = enough && fault.find(*enough) != std::string::npos;
        }
      }
    });
  }
  losses.states = seen.size();
  return losses;
}

TEST(PowerLoss, TheNewestCheckpointIsThereWheneverThePowerGoes) {
  const SavedWithLog saved({});
  const Losses losses = lose_power_at_each_moment(saved);
  EXPECT_THAT(losses.faults, IsEmpty());
  EXPECT_GT(losses.states, 100U);
}

// The disk of these tests loses what a caller does not sync. One such loss shows it.
TEST(PowerLoss, AFileThatIsNotSyncedIsLost) {
  const Losses losses = lose_power_at_each_moment(SavedWithLog({.syncs_files = false}), "error");
  EXPECT_THAT(losses.faults, Contains(HasSubstr("error")));
}

TEST(PowerLoss, ANameThatIsNotSyncedIsLost) {
  const Losses losses = lose_power_at_each_moment(SavedWithLog({.syncs_folder = false}), "error");
  EXPECT_THAT(losses.faults, Contains(HasSubstr("error")));
}

}  // namespace
}  // namespace lockstep::checkpoint
