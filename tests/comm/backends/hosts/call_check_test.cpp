#include "lockstep/comm/backends/hosts/call_check.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::all_reduce;
using lockstep::testing::Tensors;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(CallCheck, ARankWithoutALaneIsToldNothing) {
  const auto deadline = Deadline::in(std::chrono::seconds(1));
  const GlooWait waiter([] { return false; });
  const HostMap map({HostCard{"here", "box", {}}}, 0);
  EXPECT_NO_THROW(CallCheck(nullptr, "barrier", waiter, deadline).require(map));
}

// All sides, of two hosts and of more; of small tensors, of large ones, and of one of each.
TEST(CallCheck, DifferentCallsAreAnErrorThatShowsAllSides) {
  for (const auto& hosts : std::vector<std::vector<int>>{{1, 1}, {2, 2}, {1, 2, 3}}) {
    for (const auto& [here, there] :
         std::vector<std::pair<int, int>>{{10, 12}, {70000, 80000}, {10, 80000}}) {
      lockstep::testing::run_on_hosts(hosts, [&, here = here, there = there](Group& world) {
        const bool first = world.rank() < hosts[0];
        EXPECT_THAT(
            [&] { all_reduce(world, at::zeros({first ? here : there}))->wait(); },
            ThrowsMessage<PeerError>(AllOf(HasSubstr("calls do not match"), HasSubstr("host0"),
                                           HasSubstr(std::to_string(here) + " elements, sum"),
                                           HasSubstr(std::to_string(there) + " elements"))));
        ::usleep(500000);
      });
    }
  }
}

TEST(CallCheck, DifferentKindsAreAnErrorThatShowsBoth) {
  lockstep::testing::run_on_hosts({1, 1, 1}, [](Group& world) {
    Tensors tensors{at::zeros({10})};
    EXPECT_THAT(
        [&] {
          world.rank() == 2 ? world.backend()->broadcast(tensors, {})->wait()
                            : world.backend()->allreduce(tensors, {})->wait();
        },
        ThrowsMessage<PeerError>(AllOf(HasSubstr("calls broadcast"), HasSubstr("all_reduce"))));
    ::usleep(500000);
  });
}

}  // namespace
}  // namespace lockstep::comm
