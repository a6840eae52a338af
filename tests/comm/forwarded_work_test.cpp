#include "lockstep/comm/forwarded_work.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::kTwoHosts;
using lockstep::testing::run_ranks;
using lockstep::testing::Tensors;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ForwardedWork, AFailureEndsTheGroupOnAllRanks) {
  run_ranks(
      2,
      [](Group& world) {
        if (world.rank() == 0) {
          Tensors tensors{at::zeros({3})};
          EXPECT_THAT(
              [&] { world.backend()->recv(tensors, 1, 0)->wait(std::chrono::milliseconds(300)); },
              ThrowsMessage<PeerError>(HasSubstr("recv on rank 0 of 2")));
          world.store()->set("rank 0 waited in vain", std::vector<std::uint8_t>{1});
        } else {
          world.store()->wait({"rank 0 waited in vain"});
        }
        EXPECT_THROW(world.barrier(), PeerError);
      },
      kTwoHosts);
}

}  // namespace
}  // namespace lockstep::comm
