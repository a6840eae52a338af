#include "lockstep/comm/backends/local/backend.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"

namespace lockstep {
namespace {

TEST(Alone, NeedsNoProcessGroupAndNoSocket) {
  auto world = init_process_group();
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_FALSE(world.is_distributed());
  EXPECT_EQ(world.local_rank(), 0);
  EXPECT_EQ(world.local_size(), 1);
  EXPECT_EQ(world.node_rank(), 0);
  EXPECT_EQ(world.found_by(), "alone");
}

TEST(Alone, EveryCollectiveIsACopy) {
  auto world = init_process_group();
  const auto input = at::full({3}, 7);
  const auto output = at::zeros({3}, at::kLong);
  world.all_reduce(input, {.op = ReduceOp::kAvg}).wait();
  world.broadcast(input).wait();
  world.reduce(input).wait();
  EXPECT_EQ(input.sum().item<std::int64_t>(), 21);
  const auto expect_copy = [&](Work work) {
    work.wait();
    EXPECT_TRUE(output.equal(input));
    output.zero_();
  };
  expect_copy(world.all_gather({output}, input));
  expect_copy(world.gather({output}, input));
  expect_copy(world.scatter(output, {input}));
  expect_copy(world.reduce_scatter(output, {input}));
  expect_copy(world.all_to_all({output}, {input}));
  world.barrier();
  EXPECT_EQ(world.broadcast_bytes("x"), "x");
  EXPECT_THAT(world.all_gather_bytes("y"), ::testing::ElementsAre("y"));
}

TEST(Alone, ResultsInOnePlaceAreRefusedAsInAGroup) {
  auto world = init_process_group();
  const auto one_place = at::zeros({1}).expand({3});
  const auto input = at::zeros({4});
  const auto here = input.narrow(0, 0, 3);
  const auto there = input.narrow(0, 1, 3);
  EXPECT_THROW((void)world.all_reduce(one_place), UsageError);
  EXPECT_THROW((void)world.reduce(one_place), UsageError);
  EXPECT_THROW((void)world.all_gather({here}, there), UsageError);
  EXPECT_THROW((void)world.gather({here}, there), UsageError);
  EXPECT_THROW((void)world.scatter(here, {there}), UsageError);
  EXPECT_THROW((void)world.reduce_scatter(here, {there}), UsageError);
  EXPECT_THROW((void)world.all_to_all({here}, {there}), UsageError);
  const auto backend = world.backend();
  std::vector<at::Tensor> same{one_place};
  EXPECT_THROW(backend->allreduce(same, {}), UsageError);
  EXPECT_THROW(backend->allreduce_coalesced(same, {}), UsageError);
  EXPECT_THROW(backend->reduce(same, {}), UsageError);
  std::vector<at::Tensor> outputs{here};
  std::vector<at::Tensor> inputs{there};
  EXPECT_THROW(backend->alltoall(outputs, inputs, {}), UsageError);
}

TEST(Alone, ServesC10dUsersToo) {
  auto world = init_process_group();
  std::vector<at::Tensor> tensors{at::full({2}, 5.0)};
  world.backend()->allreduce(tensors)->wait();
  EXPECT_EQ(tensors[0].sum().item<double>(), 10);
  EXPECT_EQ(world.backend()->getBackendName(), "local");
}

}  // namespace
}  // namespace lockstep
