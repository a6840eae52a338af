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

TEST(MpiCollectives, AllGatherFillsOneTensorAlsoOneWithGaps) {
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

TEST(MpiCollectives, EveryDtypeTravels) {
  on_two_mpi_ranks([](Group& world) {
    for (const auto dtype : {at::kBool, at::kBFloat16, at::kFloat8_e5m2, at::kComplexDouble}) {
      Tensors tensors{at::full({3}, world.rank() == 0 ? 1 : 0, at::kFloat).to(dtype)};
      world.backend()->broadcast(tensors)->wait();
      EXPECT_EQ(tensors[0].to(at::kComplexDouble).abs().sum().item<double>(), 3)
          << c10::toString(dtype);
    }
  });
}

TEST(MpiCollectives, ManyTensorsOfManyKindsInOneCall) {
  on_two_mpi_ranks([](Group& world) {
    Tensors tensors{at::full({3}, world.rank() + 1.0), at::full({0}, 1.0),
                    at::full({2, 2}, world.rank() + 1, at::kHalf),
                    at::full({4, 2}, world.rank() + 1, at::kLong).t()};
    world.backend()->allreduce_coalesced(tensors)->wait();
    for (const auto& tensor : tensors) {
      EXPECT_TRUE(tensor.equal(at::full_like(tensor, 3)));
    }
  });
}

TEST(MpiCollectives, TruthValuesStayTruthValues) {
  on_two_mpi_ranks([](Group& world) {
    Tensors tensors{at::full({3}, true)};
    world.backend()->allreduce(tensors)->wait();
    EXPECT_EQ(tensors[0].sum().item<std::int64_t>(), 3);
    Tensors mixed{at::full({1}, world.rank() == 0)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::PRODUCT;
    world.backend()->allreduce(mixed, options)->wait();
    EXPECT_FALSE(mixed[0].item<bool>());
  });
}

TEST(MpiCollectives, HalvesAreRoundedOnceAtTheEnd) {
  on_two_mpi_ranks([](Group& world) {
    Tensors tensors{at::full({1}, world.rank() == 0 ? 60000 : 60002, at::kHalf)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::AVG;  // The sum is more than a half can hold.
    world.backend()->allreduce(tensors, options)->wait();
    EXPECT_EQ(tensors[0].item<double>(), 60000);
  });
}

TEST(MpiCollectives, WhatMpiCannotDoIsAUsageErrorThatNamesTheCall) {
  on_two_mpi_ranks([](Group& world) {
    Tensors tensors{at::full({3}, 1.0)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::BXOR;
    EXPECT_THAT([&] { world.backend()->allreduce(tensors, options); },
                ThrowsMessage<UsageError>(HasSubstr("all_reduce on rank")));
    Tensors sparse{tensors[0].to_sparse()};
    EXPECT_THROW(world.backend()->allreduce(sparse), UsageError);
  });
}

}  // namespace
}  // namespace lockstep
