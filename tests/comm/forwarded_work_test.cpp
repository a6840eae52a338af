#include "lockstep/comm/forwarded_work.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::kTwoHosts;
using lockstep::testing::run_ranks;
using lockstep::testing::Tensors;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ForwardedWork, AWaitThatIsOverBeforeTheWorkLeavesTheGroupAsItIs) {
  run_ranks(
      2,
      [](Group& world) {
        if (world.rank() == 1) {
          world.store()->wait({"rank 0 waited in vain"});
        }
        Tensors inputs{at::full({3}, static_cast<float>(world.rank()))};
        std::vector<Tensors> outputs{{at::zeros({3}), at::zeros({3})}};
        const auto work = world.backend()->allgather(outputs, inputs, {});
        if (world.rank() == 0) {
          EXPECT_THAT([&] { work->wait(std::chrono::milliseconds(100)); },
                      ThrowsMessage<PeerError>(HasSubstr("allgather #1 on rank 0")));
          world.store()->set("rank 0 waited in vain", std::vector<std::uint8_t>{1});
        }
        work->wait();
        EXPECT_EQ(outputs[0][1][2].item<float>(), 1);
        world.barrier();
      },
      kTwoHosts);
}

TEST(ForwardedWork, AFailureEndsTheGroupOnAllRanks) {
  run_ranks(
      2,
      [](Group& world) {
        if (world.rank() == 0) {
          Tensors inputs{at::zeros({3})};
          std::vector<Tensors> outputs{{at::zeros({3}), at::zeros({3})}};
          c10d::AllgatherOptions options;
          options.timeout = std::chrono::milliseconds(300);
          EXPECT_THROW(world.backend()->allgather(outputs, inputs, options)->wait(), PeerError);
        } else {
          ::usleep(1000000);
        }
        EXPECT_THROW(world.barrier(), PeerError);
      },
      kTwoHosts);
}

}  // namespace
}  // namespace lockstep::comm
