// What a job with many groups costs each of its ranks.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "tests/comm/shm_ranks.h"

namespace lockstep {
namespace {

// `ulimit -v`. A sanitizer has taken terabytes before the first line of a program.
void limit_address_space_to(std::size_t bytes) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const std::size_t now = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const rlim_t limit = now < bytes ? bytes : now + bytes;
  const rlimit both{.rlim_cur = limit, .rlim_max = limit};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &both), 0);
}

// With all that a group has beside its shared memory: store, threads, lists of LibTorch.
TEST(GroupLimits, TwoHundredGroupsOfEightRanksFitInto64GiBOfAddressSpace) {
  testing::on_ranks(8, [](Group& world) {
    limit_address_space_to(std::size_t{64} << 30);
    const auto sums = [](const Group& group) {
      const auto tensor = at::full({20000}, group.rank() + 1);
      group.all_reduce(tensor).wait();
      return tensor.eq(36).all().item<bool>();
    };
    std::vector<Group> groups;
    for (int i = 0; i < 200; ++i) {
      groups.push_back(world.new_group({7, 6, 5, 4, 3, 2, 1, 0}));
      ASSERT_TRUE(sums(groups.back())) << i;
    }
    for (const auto& group : groups) {  // All of them at once.
      ASSERT_TRUE(sums(group));
    }
  });
}

}  // namespace
}  // namespace lockstep
