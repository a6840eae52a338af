#include "lockstep/comm/host_agreement.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::all_reduce;
using lockstep::testing::kTwoHosts;
using lockstep::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(HostAgreement, ARankWithoutALaneIsToldNothing) {
  const auto deadline = Deadline::in(std::chrono::seconds(1));
  const WatchedWait waiter([] { return false; });
  const HostMap map({HostCard{"here", "box", {}}}, 0);
  EXPECT_NO_THROW(HostAgreement(nullptr, "barrier", waiter, deadline).require(map, deadline));
}

TEST(HostAgreement, DifferentCallsOfTwoHostsAreAnErrorThatShowsBoth) {
  for (const int ranks : {2, 4}) {
    run_ranks(
        ranks,
        [](Group& world) {
          const bool here = world.rank() < world.size() / 2;
          EXPECT_THAT([&] { all_reduce(world, at::zeros({here ? 10 : 12}))->wait(); },
                      ThrowsMessage<PeerError>(AllOf(HasSubstr("calls do not match"),
                                                     HasSubstr("10 elements, sum"),
                                                     HasSubstr("12 elements"))));
          ::usleep(500000);
        },
        kTwoHosts);
  }
}

}  // namespace
}  // namespace lockstep::comm
