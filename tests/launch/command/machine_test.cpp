#include "lockstep/launch/command/machine.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/launch/job.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Machine kEightGpus{.cores = 16, .gpus = 8, .visible_gpus = 2};
constexpr Machine kNoGpus{.cores = 16};

Environment visible(const std::string& ids) { return Environment({{"CUDA_VISIBLE_DEVICES", ids}}); }

TEST(ThisMachine, CountsGpuDeviceFiles) {
  const test::TemporaryFolder folder;
  for (const char* name : {"nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "null"}) {
    (void)folder.write(name, "");
  }
  EXPECT_EQ(this_machine({}, folder.path).gpus, 3);
  EXPECT_EQ(this_machine({}, folder.path).visible_gpus, 3);
  EXPECT_EQ(this_machine(visible("1"), folder.path).visible_gpus, 1);
  EXPECT_EQ(this_machine(visible("0,-1,1"), folder.path).visible_gpus, 1);
  EXPECT_EQ(this_machine(visible(""), folder.path).visible_gpus, 0);
  EXPECT_EQ(this_machine({}, folder.file("absent")).gpus, 0);
  EXPECT_GE(this_machine({}, folder.path).cores, 1);
}

TEST(WorkerCount, NumbersAndNames) {
  EXPECT_EQ(parse_worker_count("3", kNoGpus), 3);
  EXPECT_EQ(parse_worker_count("cpu", kEightGpus), 16);
  EXPECT_EQ(parse_worker_count("gpu", kEightGpus), 2);
  EXPECT_EQ(parse_worker_count("auto", kEightGpus), 2);
  EXPECT_EQ(parse_worker_count("auto", kNoGpus), 16);
  for (const char* text : {"0", "-1", "abc", "", "1.5", "100000", "99999999999999999999"}) {
    EXPECT_THROW(parse_worker_count(text, kNoGpus), UsageError) << text;
  }
  EXPECT_THAT([] { parse_worker_count("gpu", kNoGpus); },
              ThrowsMessage<UsageError>(HasSubstr("no usable GPU")));
}

TEST(GpuIds, KeepTheirOrder) {
  EXPECT_THAT(parse_gpu_ids("1,6,3", kEightGpus), ElementsAre(1, 6, 3));
}

TEST(GpuIds, AbsentOrDoubleIdsAndMissingGpusAreErrors) {
  EXPECT_THAT([] { parse_gpu_ids("1,8", kEightGpus); },
              ThrowsMessage<UsageError>(HasSubstr("there is no GPU '8'")));
  EXPECT_THAT([] { parse_gpu_ids("1,2,1", kEightGpus); },
              ThrowsMessage<UsageError>(HasSubstr("GPU 1 is listed twice")));
  EXPECT_THAT([] { parse_gpu_ids("0", kNoGpus); }, ThrowsMessage<UsageError>(HasSubstr("no GPU")));
  EXPECT_THROW(parse_gpu_ids("", kEightGpus), UsageError);
}

}  // namespace
}  // namespace lockstep::launch
