#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::run_on_hosts;
using lockstep::testing::Tensors;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(HostMesh, GatherAndScatterMoveUnequalSizesWithGaps) {
  run_on_hosts({1, 2, 1}, [](Group& world) {
    const auto wide = at::zeros({4, 8});
    const auto part = [&](int rank) { return wide[rank].slice(0, 0, 2 * rank, 2); };
    std::vector<Tensors> outputs;
    c10d::GatherOptions to;
    to.rootRank = 2;
    c10d::ScatterOptions from;
    from.rootRank = 2;
    if (world.rank() == 2) {
      outputs.push_back({part(0), part(1), part(2), part(3)});
    }
    Tensors inputs{at::full({world.rank()}, 10.0F * static_cast<float>(world.rank()))};
    world.backend()->gather(outputs, inputs, to)->wait();
    if (world.rank() == 2) {
      EXPECT_EQ(wide.sum().item<float>(), 10 + 2 * 20 + 3 * 30);
      EXPECT_EQ(wide[3][4].item<float>(), 30);
      EXPECT_EQ(wide[3][1].item<float>(), 0);
    }
    Tensors back{at::zeros({world.rank(), 2}).select(1, 0)};
    world.backend()->scatter(back, outputs, from)->wait();
    EXPECT_TRUE(back[0].equal(inputs[0]));
  });
}

TEST(HostMesh, AllToAllExchangesUnequalPieces) {
  run_on_hosts({1, 2, 1}, [](Group& world) {
    Tensors inputs;
    Tensors outputs;
    for (int peer = 0; peer < 4; ++peer) {
      inputs.push_back(at::full({world.rank() + peer}, 10 * world.rank() + peer, at::kShort));
      outputs.push_back(at::zeros({world.rank() + peer}, at::kShort));
    }
    world.backend()->alltoall(outputs, inputs, {})->wait();
    for (int peer = 0; peer < 4; ++peer) {
      EXPECT_TRUE(outputs[static_cast<std::size_t>(peer)].equal(
          at::full({world.rank() + peer}, 10 * peer + world.rank(), at::kShort)));
    }
  });
}

TEST(HostMesh, SizesThatDoNotFitAreAnErrorOnAllRanks) {
  run_on_hosts({1, 1, 1}, [](Group& world) {
    std::vector<Tensors> outputs;
    if (world.rank() == 0) {
      outputs.push_back({at::zeros({2}), at::zeros({3}), at::zeros({2})});
    }
    Tensors inputs{at::zeros({2})};
    EXPECT_THAT([&] { world.backend()->gather(outputs, inputs, {})->wait(); },
                ThrowsMessage<PeerError>(HasSubstr("rank 1 gives 8 bytes to rank 0")));
    ::usleep(500000);
  });
}

}  // namespace
}  // namespace lockstep::comm
