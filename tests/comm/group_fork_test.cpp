// What a forked child can do with the group of its parent: nothing to it.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "tests/comm/ranks.h"
#include "tests/support/child.h"

namespace lockstep {
namespace {

std::int64_t sum_in(const Group& group) {
  const auto tensor = at::full({1}, 1, at::kLong);
  group.all_reduce(tensor).wait();
  return tensor.item<std::int64_t>();
}

class GroupFork : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Backends, GroupFork, ::testing::ValuesIn(testing::backends()),
                         [](const auto& backend) { return std::string(backend.param); });

// The child has neither the threads nor the connections to itself.
TEST_P(GroupFork, DestroysAnInheritedGroupPromptlyAndChangesNothing) {
  testing::run_ranks(
      2,
      [](Group& world) {
        EXPECT_EQ(sum_in(world), 2);
        EXPECT_EQ(test::run_in_child([&] {
                    ::alarm(60);
                    bool refused = false;
                    try {
                      sum_in(world);
                    } catch (const UsageError&) {
                      refused = true;
                    }
                    const Deadline deadline = Deadline::in(std::chrono::seconds(4));
                    world.destroy();
                    {
                      const Group last = std::move(world);
                    }
                    return refused && !deadline.passed() ? 0 : 1;
                  }),
                  0);
        EXPECT_EQ(sum_in(world), 2);
        world.store()->set("rank " + std::to_string(world.rank()), "1");
        world.store()->wait({"rank 0", "rank 1"});
        EXPECT_EQ(sum_in(world.new_group({0, 1})), 2);
      },
      GetParam());
}

}  // namespace
}  // namespace lockstep
