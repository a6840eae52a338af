#include "lockstep/base/memory.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A made-up /proc and /sys.
class FreeMemoryOf : public ::testing::Test {
 protected:
  FreeMemoryOf() {
    write("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 400 kB\n");
  }

  void write(const std::string& file, const std::string& text) const {
    const fs::path path = fs::path(root_) / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  test::TemporaryFolder folder_;
  const std::string root_ = folder_.path;
};

TEST_F(FreeMemoryOf, AMachineWithoutLimitsIsWhatTheKernelCallsAvailable) {
  const auto free = free_memory(root_);
  EXPECT_EQ(free.bytes, 400 * 1024);
  EXPECT_EQ(free.limited_by, "this machine");
}

TEST_F(FreeMemoryOf, ATighterCgroupDecidesAndIsNamed) {
  write("proc/self/cgroup", "0::/jobs/mine\n");
  write("sys/fs/cgroup/jobs/mine/memory.max", "max\n");
  write("sys/fs/cgroup/jobs/mine/memory.current", "70000\n");
  write("sys/fs/cgroup/jobs/memory.max", "102400\n");
  write("sys/fs/cgroup/jobs/memory.current", "90000\n");
  write("sys/fs/cgroup/jobs/memory.stat", "anon 60000\ninactive_file 20000\n");
  const auto free = free_memory(root_);
  EXPECT_EQ(free.bytes, 102400 - 70000);  // The page cache can be dropped.
  EXPECT_EQ(free.limited_by, "the cgroup /jobs (limit 100.0 KiB)");
}

TEST_F(FreeMemoryOf, ACgroupOverItsLimitHasNothingLeft) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "1000\n");
  write("sys/fs/cgroup/memory.current", "2000\n");
  EXPECT_EQ(free_memory(root_).bytes, 0);
}

TEST_F(FreeMemoryOf, ACgroupOfTheFirstVersionIsLookedAtToo) {
  write("proc/self/cgroup", "7:cpu,cpuacct:/x\n5:memory:/jobs/mine\n0::/\n");
  write("sys/fs/cgroup/memory/jobs/mine/memory.limit_in_bytes", "102400\n");
  write("sys/fs/cgroup/memory/jobs/mine/memory.usage_in_bytes", "90000\n");
  write("sys/fs/cgroup/memory/jobs/mine/memory.stat", "cache 1\ntotal_inactive_file 20000\n");
  const auto free = free_memory(root_);
  EXPECT_EQ(free.bytes, 102400 - 70000);
  EXPECT_EQ(free.limited_by, "the cgroup /jobs/mine (limit 100.0 KiB)");
}

TEST(FreeMemory, ThisMachineHasSome) { EXPECT_GT(free_memory().bytes, 1U << 20); }

TEST_F(FreeMemoryOf, ResidentBytesAreTheSecondNumberInPages) {
  EXPECT_EQ(resident_bytes(root_), std::nullopt);
  write("proc/self/statm", "100 7 5 1 0 20 0\n");
  EXPECT_EQ(resident_bytes(root_), 7U * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_GT(resident_bytes().value(), 1U << 20);
}

TEST(SizeText, PicksTheUnit) {
  EXPECT_EQ(size_text(100), "100 bytes");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(25ULL << 20), "25.0 MiB");
  EXPECT_THAT(size_text(~0ULL), HasSubstr("TiB"));
}

}  // namespace
}  // namespace lockstep
