#include "lockstep/data/loader/options.h"

#include <ATen/ops/arange.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/data/datasets/tensor_dataset.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const TensorDataset& in_memory() {
  static const TensorDataset dataset(at::arange(8, at::kLong));
  return dataset;
}

// As if its samples came from files.
class NotInMemory : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 8; }
  [[nodiscard]] Sample get(std::int64_t /*index*/) const override { return {}; }
};

bool is_refused(const DataLoaderOptions& options) {
  try {
    (void)checked(options, in_memory());
    return false;
  } catch (const UsageError&) {
    return true;
  }
}

TEST(DataLoaderOptions, AreRefusedWherePythonRefusesThem) {
  const test::TemporaryFolder folder;
  test::run_python("data/loader/loader_cases.py", {"options", folder.file("cases")});
  std::ifstream file(folder.file("cases"));
  int refused_cases = 0;
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    std::istringstream fields(line);
    DataLoaderOptions options;
    bool sampler = false;
    bool batch_sampler = false;
    int timeout = 0;
    int prefetch_factor = 0;
    bool refused = false;
    fields >> options.batch_size >> options.shuffle >> sampler >> batch_sampler >>
        options.drop_last >> options.num_workers >> timeout >> prefetch_factor >> refused;
    ASSERT_TRUE(fields) << line;
    if (sampler) {
      options.sampler = SequentialSampler(8);
    }
    if (batch_sampler) {
      options.batch_sampler = BatchSampler(SequentialSampler(8), {.batch_size = 3});
    }
    options.timeout = seconds(timeout);
    if (prefetch_factor != -9) {
      options.prefetch_factor = prefetch_factor;
    }
    ASSERT_EQ(is_refused(options), refused) << line;
    refused_cases += refused ? 1 : 0;
  }
  EXPECT_EQ(lines, 1728);
  EXPECT_GT(refused_cases, 1000);
  EXPECT_LT(refused_cases, 1700);
}

TEST(DataLoaderOptions, SayWhatIsWrong) {
  const auto check = [](const DataLoaderOptions& options) {
    return [options] { (void)checked(options, in_memory()); };
  };
  EXPECT_THAT(check({.shuffle = true, .sampler = SequentialSampler(8)}),
              ThrowsMessage<UsageError>(HasSubstr("sampler and shuffle are both given")));
  EXPECT_THAT(
      check({.batch_size = 2, .batch_sampler = BatchSampler(SequentialSampler(8), {})}),
      ThrowsMessage<UsageError>(HasSubstr("batch_sampler is given with batch_size, shuffle")));
  EXPECT_THAT(check({.batch_size = 0}),
              ThrowsMessage<UsageError>(HasSubstr("batch_size is 0, expected 1 or more")));
  EXPECT_THAT(check({.num_workers = -2}),
              ThrowsMessage<UsageError>(HasSubstr("num_workers is -2, expected 0 or more")));
  EXPECT_THAT(check({.num_workers = 1, .timeout = seconds(-1)}),
              ThrowsMessage<UsageError>(HasSubstr("timeout is -1000 ms")));
  EXPECT_THAT(check({.timeout = seconds(1)}),
              ThrowsMessage<UsageError>(HasSubstr("timeout is given with num_workers 0")));
  EXPECT_THAT(check({.prefetch_factor = 2}),
              ThrowsMessage<UsageError>(HasSubstr("prefetch_factor is given with num_workers 0")));
  EXPECT_THAT(check({.num_workers = 1, .prefetch_factor = 0}),
              ThrowsMessage<UsageError>(HasSubstr("prefetch_factor is 0, expected 1 to 10000")));
  EXPECT_THAT(check({.num_workers = 1, .prefetch_factor = 10'001}),
              ThrowsMessage<UsageError>(HasSubstr("prefetch_factor is 10001, expected 1 to")));
}

TEST(DataLoaderOptions, FillInWhatIsLeftOpen) {
  const DataLoaderOptions options = checked({.num_workers = 3}, in_memory());
  EXPECT_EQ(options.prefetch_factor, 2);
  EXPECT_EQ(options.timeout, std::chrono::minutes(30));
  EXPECT_EQ(checked({.num_workers = 1, .timeout = seconds(0)}, in_memory()).timeout, seconds(0));
}

TEST(DataLoaderOptions, AutomaticWorkersFollowDataSetCoresAndRanks) {
  EXPECT_EQ(checked({.num_workers = kAuto}, in_memory()).num_workers, 0);
  ::unsetenv("LOCAL_WORLD_SIZE");
  EXPECT_EQ(checked({.num_workers = kAuto}, NotInMemory()).num_workers, usable_cores());
  ::setenv("LOCAL_WORLD_SIZE", "2", 1);
  EXPECT_EQ(automatic_workers(), std::max(1, usable_cores() / 2));
  ::setenv("LOCAL_WORLD_SIZE", "100000", 1);
  EXPECT_EQ(automatic_workers(), 1);
  ::unsetenv("LOCAL_WORLD_SIZE");
  EXPECT_EQ(checked({.num_workers = kAuto, .prefetch_factor = 4}, in_memory()).num_workers, 0)
      << "what is for workers is no mistake where there turn out to be none";
}

}  // namespace
}  // namespace lockstep::data
