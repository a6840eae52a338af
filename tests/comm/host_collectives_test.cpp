#include "lockstep/comm/host_collectives.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::all_reduce;
using lockstep::testing::kTwoHosts;
using lockstep::testing::premultiplied_sum;
using lockstep::testing::run_ranks;
using lockstep::testing::Tensors;

// Two hosts with one rank each, with two and one, with two each, with three and two.
class HostCollectivesOf : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, HostCollectivesOf, ::testing::Values(2, 3, 4, 5));

TEST_P(HostCollectivesOf, SumsEveryDtypeAndSize) {
  run_ranks(
      GetParam(),
      [](Group& world) {
        const int n = world.size();
        for (const auto dtype :
             {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kComplexFloat,
              at::kComplexDouble, at::kChar, at::kByte, at::kShort, at::kInt, at::kLong}) {
          for (const int size : {0, 1, 2, 3, 1000}) {
            const auto ones = at::arange(size, at::kInt).remainder(5).to(dtype);
            const auto tensor = ones * (world.rank() + 1);
            all_reduce(world, tensor)->wait();
            EXPECT_TRUE(tensor.equal(ones * (n * (n + 1) / 2))) << c10::toString(dtype) << size;
          }
        }
        const auto pattern = at::arange(3000001, at::kFloat).remainder(7);  // Of several pieces.
        const auto large = pattern * world.rank();
        all_reduce(world, large)->wait();
        EXPECT_TRUE(large.equal(pattern * (n * (n - 1) / 2)));
      },
      kTwoHosts);
}

TEST_P(HostCollectivesOf, BroadcastsFromEveryRank) {
  run_ranks(
      GetParam(),
      [](Group& world) {
        for (int root = 0; root < world.size(); ++root) {
          for (const auto dtype : {at::kFloat, at::kShort, at::kBool}) {
            const auto expected = (at::arange(1001) + root).remainder(3).to(dtype);
            Tensors tensors{world.rank() == root ? expected.clone() : at::zeros({1001}, dtype)};
            c10d::BroadcastOptions options;
            options.rootRank = root;
            world.backend()->broadcast(tensors, options)->wait();
            EXPECT_TRUE(tensors[0].equal(expected)) << root;
          }
        }
      },
      kTwoHosts);
}

TEST(HostCollectives, KnowsEveryOperation) {
  run_ranks(
      4,
      [](Group& world) {
        const auto reduced = [&](const c10d::ReduceOp& op, at::ScalarType dtype) {
          const auto tensor = at::full({3}, world.rank() + 1, dtype);  // 1, 2, 3, 4
          all_reduce(world, tensor, op)->wait();
          return tensor[2].item<double>();
        };
        using Op = c10d::ReduceOp;
        EXPECT_EQ(reduced(Op::PRODUCT, at::kInt), 24);
        EXPECT_EQ(reduced(Op::MIN, at::kFloat), 1);
        EXPECT_EQ(reduced(Op::MAX, at::kLong), 4);
        EXPECT_EQ(reduced(Op::AVG, at::kFloat), 2.5);
        EXPECT_EQ(reduced(Op::BAND, at::kInt), 0);
        EXPECT_EQ(reduced(Op::BOR, at::kInt), 7);
        EXPECT_EQ(reduced(Op::BXOR, at::kInt), 4);
        EXPECT_EQ(reduced(premultiplied_sum(0.5), at::kFloat), 5);
        EXPECT_EQ(reduced(Op::SUM, at::kBool), 1);
      },
      kTwoHosts);
}

TEST(HostCollectives, PremultipliesAlsoForTheOnlyRankOfAHost) {
  run_ranks(
      3,
      [](Group& world) {
        const auto tensor = at::full({3}, static_cast<float>(world.rank() + 1));
        all_reduce(world, tensor, premultiplied_sum(0.5))->wait();
        EXPECT_EQ(tensor[1].item<float>(), 3);
      },
      kTwoHosts);
}

// As `srun -m cyclic` does: the ranks of a host are no neighbours.
TEST(HostCollectives, RanksMayBeDealtToTheHostsInTurn) {
  EXPECT_NO_THROW(spawn(5, [](int rank) {
    ::setenv("LOCKSTEP_HOST_ID", rank % 2 == 0 ? "here" : "there", 1);
    Group world = init_process_group({.timeout = std::chrono::seconds(60)});
    const auto pattern = at::arange(1001, at::kFloat);
    const auto sum = pattern * rank;
    all_reduce(world, sum)->wait();
    Tensors copy{at::full({1001}, rank)};
    c10d::BroadcastOptions options;
    options.rootRank = 3;
    world.backend()->broadcast(copy, options)->wait();
    if (!sum.equal(pattern * 10) || !copy[0].equal(at::full({1001}, 3))) {
      throw std::runtime_error("rank " + std::to_string(rank) + " has other numbers");
    }
  }));
}

TEST(HostCollectives, ReducesWhatSharedMemoryAndGlooCanDoTogether) {
  using Op = c10d::ReduceOp;
  EXPECT_TRUE(HostCollectives::reduces(at::zeros({1}, at::kShort), Op::SUM));
  EXPECT_TRUE(HostCollectives::reduces(at::zeros({1}, at::kBool), Op::BOR));
  EXPECT_FALSE(HostCollectives::reduces(at::zeros({1}, at::kBool), Op::AVG));
  EXPECT_TRUE(HostCollectives::reduces(at::zeros({1}, at::kComplexFloat), Op::SUM));
  EXPECT_FALSE(HostCollectives::reduces(at::zeros({1}, at::kComplexFloat), Op::PRODUCT));
  EXPECT_FALSE(HostCollectives::reduces(at::zeros({1}, at::kComplexHalf), Op::SUM));
}

}  // namespace
}  // namespace lockstep::comm
