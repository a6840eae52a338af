// What c10d's users can ask for and Group does not; collectives_test.cpp has the rest.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::on_two_mpi_ranks;
using ::testing::ThrowsMessage;
using Tensors = std::vector<at::Tensor>;

TEST(MpiMoves, AllGatherFillsOneTensorAlsoOneWithGaps) {
  on_two_mpi_ranks([](Group& world) {
    auto input = at::full({2}, world.rank() + 1);
    auto output = at::zeros({4}, at::kLong);
    auto with_gaps = at::zeros({4, 2}, at::kLong).select(1, 0);
    world.backend()->_allgather_base(output, input)->wait();
    world.backend()->_allgather_base(with_gaps, input)->wait();
    EXPECT_EQ(output[1].item<std::int64_t>(), 1);
    EXPECT_EQ(output[2].item<std::int64_t>(), 2);
    EXPECT_TRUE(with_gaps.equal(output));
    auto small = at::zeros({2}, at::kLong);
    EXPECT_THAT([&] { world.backend()->_allgather_base(small, input); },
                ThrowsMessage<UsageError>(HasSubstr("the input has 2 elements, expected 1")));
  });
}

TEST(MpiMoves, AllGatherTakesSeveralTensorsAtOnce) {
  on_two_mpi_ranks([](Group& world) {
    Tensors inputs{at::full({1}, world.rank()), at::full({2}, 10.0 * world.rank())};
    std::vector<Tensors> outputs;
    for (int rank = 0; rank < 2; ++rank) {
      outputs.push_back({at::full({1}, -1), at::full({2}, -1.0)});
    }
    world.backend()->allgather_coalesced(outputs, inputs)->wait();
    for (int rank = 0; rank < 2; ++rank) {
      const auto& row = outputs[static_cast<std::size_t>(rank)];
      EXPECT_EQ(row[0].item<std::int64_t>(), rank);
      EXPECT_EQ(row[1].sum().item<double>(), 20.0 * rank);
    }
  });
}

TEST(MpiMoves, AllToAllOfOneTensorFollowsTheSplitSizes) {
  on_two_mpi_ranks([](Group& world) {
    // Rank 0 keeps one row and sends two; rank 1 sends three and keeps none.
    std::vector<std::int64_t> gives =
        world.rank() == 0 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{3, 0};
    std::vector<std::int64_t> takes =
        world.rank() == 0 ? std::vector<std::int64_t>{1, 3} : std::vector<std::int64_t>{2, 0};
    auto input = at::arange(6).view({3, 2}) + 100 * world.rank();
    auto output = at::zeros({world.rank() == 0 ? 4 : 2, 2}, at::kLong);
    world.backend()->alltoall_base(output, input, takes, gives)->wait();
    EXPECT_EQ(output.select(1, 0).sum().item<std::int64_t>(),
              world.rank() == 0 ? 0 + 100 + 102 + 104 : 2 + 4);
  });
}

TEST(MpiMoves, EveryDtypeTravels) {
  on_two_mpi_ranks([](Group& world) {
    for (const auto dtype : {at::kBool, at::kBFloat16, at::kFloat8_e5m2, at::kComplexDouble}) {
      Tensors tensors{at::full({3}, world.rank() == 0 ? 1 : 0, at::kFloat).to(dtype)};
      world.backend()->broadcast(tensors)->wait();
      EXPECT_EQ(tensors[0].to(at::kComplexDouble).abs().sum().item<double>(), 3)
          << c10::toString(dtype);
    }
  });
}

}  // namespace
}  // namespace lockstep
