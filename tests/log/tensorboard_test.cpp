// The real TensorBoard reads what SummaryWriter wrote, and ours reads what Python's wrote.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "lockstep/log/read_events.h"
#include "lockstep/log/summary_writer.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::log {
namespace {

// As in check_events.py.
std::vector<double> some_values() {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) {
    values.push_back((i - 400) * 0.01 * (i % 7));
  }
  return values;
}

void write_all_kinds(SummaryWriter& writer) {
  for (int step = 0; step < 20; ++step) {
    writer.add_scalar("Loss/train", 1.0 / (step + 3), step);
  }
  writer.add_scalar("lr", 0, std::int64_t{1} << 40);
  writer.add_scalar("Loss/val", std::nan(""), 1);
  writer.add_text("note", "# caf\xc3\xa9", 3);
  writer.add_text("broken \xff", "\xfe", 3);
  writer.add_histogram("weights", some_values(), 4);
  writer.add_histogram("zeros", std::vector<float>(5), 5);
}

TEST(TensorBoard, ReadsWhatWeWroteAndWeReadWhatPythonWrote) {
  const test::TemporaryFolder folder;
  SummaryWriter writer(folder.file("run"));
  write_all_kinds(writer);
  test::run_python("log/check_events.py", {"read", folder.file("run"), writer.path()});

  const std::filesystem::directory_iterator pythons(folder.file("run.python"));
  const auto expected = read_events(pythons->path()).events;
  const auto events = read_events(writer.path()).events;
  ASSERT_EQ(events.size(), expected.size());
  for (std::size_t i = 1; i < events.size(); ++i) {
    EXPECT_EQ(events[i].step, expected[i].step) << i;
    EXPECT_EQ(events[i].summary.at(0).tag, expected[i].summary.at(0).tag) << i;
    EXPECT_EQ(events[i].summary[0].value.index(), expected[i].summary[0].value.index()) << i;
  }
}

TEST(TensorBoard, ForgetsWhatIsPurged) {
  const test::TemporaryFolder folder;
  SummaryWriter first(folder.file("run"));
  for (int step = 0; step < 10; ++step) {
    first.add_scalar("Loss/train", step, step);
  }
  // A run that goes on begins seconds later, and TensorBoard sorts by the names.
  SummaryWriter second(folder.file("run"), {.purge_step = 6, .filename_suffix = ".z"});
  second.add_scalar("Loss/train", 66, 6);
  test::run_python("log/check_events.py", {"purged", folder.file("run")});
}

TEST(Wandb, GetsTheScalarsAndTheConfiguration) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("wandb"));
  SummaryWriter writer(folder.file("run"));
  write_all_kinds(writer);
  test::run_python("log/check_wandb.py", {folder.file("run"), folder.file("wandb")});
}

}  // namespace
}  // namespace lockstep::log
