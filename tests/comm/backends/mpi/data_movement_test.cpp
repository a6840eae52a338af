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
    EXPECT_THAT(
        [&] { world.backend()->_allgather_base(small, input); },
        ThrowsMessage<UsageError>(HasSubstr("the output has 2 elements of Long, expected 4")));
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
