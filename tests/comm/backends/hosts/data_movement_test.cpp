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
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Small enough to travel beside the check, and not.
TEST(HostDataMovement, AllGatherCollectsUnequalSizesFromUnevenHosts) {
  run_on_hosts({1, 2, 3}, [](Group& world) {
    for (const int unit : {1, 5000}) {
      std::vector<Tensors> outputs(1);
      for (int rank = 0; rank < world.size(); ++rank) {
        outputs[0].push_back(at::zeros({unit * rank}, at::kShort));  // Rank 0 has nothing.
      }
      Tensors inputs{at::full({unit * world.rank()}, world.rank(), at::kShort)};
      world.backend()->allgather(outputs, inputs, {})->wait();
      for (int rank = 0; rank < world.size(); ++rank) {
        EXPECT_TRUE(outputs[0][static_cast<std::size_t>(rank)].equal(
            at::full({unit * rank}, rank, at::kShort)));
      }
    }
  });
}

TEST(HostDataMovement, AllGatherInEveryFormAndWithGaps) {
  run_on_hosts({2, 1, 1}, [](Group& world) {
    auto whole = at::zeros({4, 3}).t();  // Not contiguous.
    at::Tensor input = at::full({3}, static_cast<float>(world.rank()));
    auto flat = at::zeros({12});
    world.backend()->_allgather_base(flat, input, {})->wait();
    EXPECT_TRUE(flat.view({4, 3}).select(1, 0).equal(at::arange(4, at::kFloat)));
    std::vector<Tensors> columns{Tensors(whole.unbind(1))};
    Tensors inputs{input};
    world.backend()->allgather(columns, inputs, {})->wait();
    EXPECT_TRUE(whole[2].equal(at::arange(4, at::kFloat)));
    std::vector<Tensors> by_rank(4, Tensors{at::zeros({3}), at::zeros({1}, at::kLong)});
    for (auto& list : by_rank) {
      list = {at::zeros({3}), at::zeros({1}, at::kLong)};
    }
    Tensors two{input, at::full({1}, world.rank(), at::kLong)};
    world.backend()->allgather_coalesced(by_rank, two, {})->wait();
    EXPECT_EQ(by_rank[3][0][1].item<float>(), 3);
    EXPECT_EQ(by_rank[2][1].item<int>(), 2);
  });
}

TEST(HostDataMovement, HostsThatMoveOtherSizesAreToldOfAllSides) {
  run_on_hosts({1, 1, 1}, [](Group& world) {
    const int mine = world.rank() == 1 ? 12 : 10;
    Tensors tensors{at::zeros({mine})};
    EXPECT_THAT([&] { world.backend()->broadcast(tensors, {})->wait(); },
                ThrowsMessage<PeerError>(AllOf(HasSubstr("broadcast #1"), HasSubstr("40 bytes"),
                                               HasSubstr("48 bytes"), HasSubstr("host2"))));
    ::usleep(500000);
  });
}

}  // namespace
}  // namespace lockstep::comm
