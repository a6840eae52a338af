#include "lockstep/comm/backends/support/split.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::run_on_hosts;
using lockstep::testing::Tensors;

// The even ranks and the odd ones, in descending order.
void split_in_two(Group& world) {
  const auto parent = world.backend();
  ASSERT_TRUE(parent->supportsSplitting());
  const bool odd = world.rank() % 2 == 1;
  const std::vector<int> ranks = odd ? std::vector{3, 1} : std::vector{2, 0};
  const auto store = c10::make_intrusive<c10d::PrefixStore>(odd ? "odd" : "even", world.store());
  const auto half = parent->split(store, ranks, parent->getBackendOptions());
  EXPECT_EQ(half->getSize(), 2);
  EXPECT_EQ(half->getRank(), world.rank() < 2 ? 1 : 0);
  EXPECT_EQ(half->getBackendName(), parent->getBackendName());
  Tensors tensors{at::full({3}, static_cast<float>(world.rank()))};
  half->allreduce(tensors, {})->wait();
  EXPECT_EQ(tensors[0][0].item<float>(), odd ? 4 : 2);
  EXPECT_FALSE(parent->split(store, {world.rank() == 0 ? 1 : 0}, nullptr)) << "not one of them";
  EXPECT_THROW(parent->split(store, {0, 9}, nullptr), UsageError);
  world.barrier();
}

TEST(Split, SomeRanksOfAHostBecomeAGroup) { lockstep::testing::on_ranks(4, split_in_two); }

TEST(Split, SomeRanksOfSeveralHostsBecomeAGroup) { run_on_hosts({1, 2, 1}, split_in_two); }

}  // namespace
}  // namespace lockstep::comm
