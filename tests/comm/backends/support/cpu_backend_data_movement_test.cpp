// Collectives that move tensors, in all of c10d's forms, on every backend of ours.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/backend_registry.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::run_ranks;
using lockstep::testing::Tensors;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class DataMovement : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(OfBackend, DataMovement,
                         ::testing::ValuesIn(lockstep::testing::own_backends()),
                         [](const auto& tested) { return tested.param; });

TEST_P(DataMovement, HasEveryFormOfAllGather) {
  run_ranks(
      2,
      [](Group& world) {
        const auto backend = world.backend();
        auto input = at::full({2, 2}, world.rank(), at::kFloat);
        auto output = at::empty({4, 2});
        backend->_allgather_base(output, input, {})->wait();
        EXPECT_TRUE(output.slice(0, 2).equal(at::full({2, 2}, 1.0F)));
        Tensors outputs{at::empty({4, 2}), at::empty({2})};
        Tensors inputs{input, at::full({1}, world.rank() + 5.0F)};
        backend->allgather_into_tensor_coalesced(outputs, inputs, {})->wait();
        EXPECT_TRUE(outputs[0].equal(output));
        EXPECT_EQ(outputs[1][1].item<float>(), 6);
        EXPECT_THAT([&] { backend->_allgather_base(input, input, {}); },
                    ThrowsMessage<UsageError>(HasSubstr("the output has 4 elements")));
      },
      GetParam());
}

// Three ranks and two inputs: a list per rank is no list per input.
TEST_P(DataMovement, GathersListsAsGlooDoes) {
  run_ranks(
      3,
      [](Group& world) {
        const auto gloo =
            BackendRegistry::built_in().make("gloo", {.store = world.store(),
                                                      .rank = world.rank(),
                                                      .size = 3,
                                                      .timeout = std::chrono::seconds(30),
                                                      .connect_timeout = std::chrono::seconds(30)});
        const auto gathered = [&](c10d::Backend& backend) {
          Tensors inputs{at::full({2}, world.rank() + 0.5F), at::full({3}, world.rank() + 0.25F)};
          std::vector<Tensors> outputs;
          for (int rank = 0; rank < 3; ++rank) {
            outputs.push_back({at::zeros({2}), at::zeros({3})});
          }
          backend.allgather_coalesced(outputs, inputs, {})->wait();
          return outputs;
        };
        const auto ours = gathered(*world.backend());
        const auto theirs = gathered(*gloo);
        for (std::size_t rank = 0; rank < 3; ++rank) {
          for (std::size_t i = 0; i < 2; ++i) {
            EXPECT_TRUE(ours[rank][i].equal(theirs[rank][i])) << rank << " " << i;
          }
        }
        world.barrier();
      },
      GetParam());
}

TEST_P(DataMovement, AllToAllOfOneTensorFollowsTheSplitSizes) {
  run_ranks(
      2,
      [](Group& world) {
        const auto backend = world.backend();
        auto input = at::arange(4, at::kFloat) + static_cast<double>(world.rank());
        auto received = at::empty({4});
        std::vector<std::int64_t> none;
        backend->alltoall_base(received, input, none, none, {})->wait();
        EXPECT_EQ(received[2].item<float>(), world.rank() == 0 ? 1 : 3);
        std::vector<std::int64_t> given{1, 3};
        std::vector<std::int64_t> taken{world.rank() == 0 ? 1 : 3, world.rank() == 0 ? 1 : 3};
        auto uneven = at::empty({world.rank() == 0 ? 2 : 6});
        backend->alltoall_base(uneven, input, taken, given, {})->wait();
        EXPECT_EQ(uneven[-1].item<float>(), world.rank() == 0 ? 1 : 4);
        given = {2, 3};
        EXPECT_THAT([&] { backend->alltoall_base(uneven, input, taken, given, {}); },
                    ThrowsMessage<UsageError>(HasSubstr("do not add up")));
      },
      GetParam());
}

// Large enough for several chunks.
TEST_P(DataMovement, AnAllGatherMayBeInPlace) {
  run_ranks(
      3,
      [](Group& world) {
        constexpr std::int64_t kCount = 200000;
        auto output = at::full({3, kCount}, -1.0F);
        auto input = output[world.rank()];
        input.copy_(at::arange(kCount, at::kFloat) + static_cast<double>(world.rank()));
        world.backend()->_allgather_base(output, input, {})->wait();
        for (int rank = 0; rank < 3; ++rank) {
          EXPECT_TRUE(
              output[rank].equal(at::arange(kCount, at::kFloat) + static_cast<double>(rank)));
        }
      },
      GetParam());
}

}  // namespace
}  // namespace lockstep::comm
