// What c10d's users can ask for and Group does not; collectives_test.cpp has the rest.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
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

TEST(MpiReductions, ManyTensorsOfManyKindsInOneCall) {
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

TEST(MpiReductions, TruthValuesStayTruthValues) {
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

TEST(MpiReductions, HalvesAreRoundedOnceAtTheEnd) {
  on_two_mpi_ranks([](Group& world) {
    Tensors tensors{at::full({1}, world.rank() == 0 ? 60000 : 60002, at::kHalf)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::AVG;  // The sum is more than a half can hold.
    world.backend()->allreduce(tensors, options)->wait();
    EXPECT_EQ(tensors[0].item<double>(), 60000);
  });
}

TEST(MpiReductions, OneTensorIsReducedAndCutAmongTheRanks) {
  on_two_mpi_ranks([](Group& world) {
    auto input = at::arange(6) + world.rank();
    auto output = at::full({3}, -1, at::kLong);
    world.backend()->_reduce_scatter_base(output, input)->wait();
    EXPECT_TRUE(output.equal(2 * at::arange(3) + (world.rank() == 0 ? 1 : 7)));
    auto uneven = at::arange(5);
    EXPECT_THAT([&] { world.backend()->_reduce_scatter_base(output, uneven); },
                ThrowsMessage<UsageError>(HasSubstr("5 elements, expected a multiple of the 2")));
  });
}

TEST(MpiReductions, WhatMpiCannotDoIsAUsageErrorThatNamesTheCall) {
  on_two_mpi_ranks([](Group& world) {
    Tensors tensors{at::full({3}, 1.0)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::BXOR;
    EXPECT_THAT([&] { world.backend()->allreduce(tensors, options); },
                ThrowsMessage<UsageError>(HasSubstr("all_reduce #1 on rank")));
    Tensors sparse{tensors[0].to_sparse()};
    EXPECT_THROW(world.backend()->allreduce(sparse), UsageError);
  });
}

}  // namespace
}  // namespace lockstep
