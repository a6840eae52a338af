#include "lockstep/comm/backends/hosts/collectives.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <cmath>

#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::all_reduce;
using lockstep::testing::kTwoHosts;
using lockstep::testing::premultiplied_sum;
using lockstep::testing::run_ranks;
using lockstep::testing::Tensors;

// How many ranks each host has.
class HostCollectivesOf : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  static void on_hosts(const std::function<void(Group&)>& body) {
    lockstep::testing::run_on_hosts(GetParam(), body);
  }
};
INSTANTIATE_TEST_SUITE_P(Hosts, HostCollectivesOf,
                         ::testing::Values(std::vector{1, 1}, std::vector{2, 1}, std::vector{2, 2},
                                           std::vector{1, 2, 3}, std::vector{1, 1, 1, 1},
                                           std::vector{2, 2, 2, 2}),
                         [](const auto& hosts) {
                           std::string name;
                           for (const int ranks : hosts.param) {
                             name += (name.empty() ? "" : "and") + std::to_string(ranks);
                           }
                           return name;
                         });

TEST_P(HostCollectivesOf, SumsEveryDtypeAndSize) {
  on_hosts([](Group& world) {
    const int n = world.size();
    for (const auto dtype :
         {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kComplexFloat, at::kComplexDouble,
          at::kChar, at::kByte, at::kShort, at::kInt, at::kLong}) {
      for (const int size : {0, 1, 2, 3, 1000}) {
        const auto ones = at::arange(size, at::kInt).remainder(5).to(dtype);
        const auto tensor = ones * (world.rank() + 1);
        all_reduce(world, tensor)->wait();
        EXPECT_TRUE(tensor.equal(ones * (n * (n + 1) / 2))) << c10::toString(dtype) << size;
      }
    }
    const auto pattern = at::arange(3000001, at::kFloat).remainder(7);  // It has several pieces.
    const auto large = pattern * world.rank();
    all_reduce(world, large)->wait();
    EXPECT_TRUE(large.equal(pattern * (n * (n - 1) / 2)));
  });
}

TEST_P(HostCollectivesOf, BroadcastsFromEveryRank) {
  on_hosts([](Group& world) {
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
  });
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

// What shared memory says, the hosts say: NaN wins, whoever has it. Elements 0 to 3 of each group
// of size + 1 have it on one rank each, the last on none.
void expect_nan_wins(Group& world, const c10d::ReduceOp& op, at::ScalarType dtype, int groups) {
  const int size = world.size();
  const auto kind = at::arange(groups * (size + 1)).remainder(size + 1);
  const auto plain = (at::arange(groups * (size + 1)).remainder(7) + world.rank()).to(dtype);
  const auto mine = plain.masked_fill(kind == world.rank(), NAN);
  all_reduce(world, mine, op)->wait();
  const auto best =
      at::arange(groups * (size + 1)).remainder(7) + (op == c10d::ReduceOp::MAX ? size - 1 : 0);
  const auto expected = best.to(dtype).masked_fill(kind != size, NAN);
  EXPECT_TRUE(at::allclose(mine.to(at::kDouble), expected.to(at::kDouble), 0, 0,
                           /*equal_nan=*/true))
      << c10::toString(dtype) << " " << groups;
}

TEST_P(HostCollectivesOf, NanWinsInMinAndMax) {
  on_hosts([](Group& world) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
      for (const auto op : {c10d::ReduceOp::MIN, c10d::ReduceOp::MAX}) {
        expect_nan_wins(world, op, dtype, 3);      // Beside the check.
        expect_nan_wins(world, op, dtype, 20000);  // Too much for that.
      }
    }
  });
}

TEST_P(HostCollectivesOf, CoalescedTensorsOfManySizesAreSummed) {
  on_hosts([](Group& world) {
    for (const int largest : {3, 1000, 3000000}) {
      Tensors tensors{at::full({largest}, 1.0F), at::full({0}, 1.0F), at::full({7}, 2, at::kShort)};
      world.backend()->allreduce_coalesced(tensors, {})->wait();
      EXPECT_TRUE(tensors[0].equal(at::full({largest}, static_cast<float>(world.size()))));
      EXPECT_TRUE(tensors[2].equal(at::full({7}, 2 * world.size(), at::kShort)));
    }
  });
}

TEST(HostCollectives, ReducesWhatGlooCannot) {
  lockstep::testing::run_on_hosts({1, 2, 1}, [](Group& world) {
    for (const int size : {5, 70000}) {
      const auto z = at::full({size}, c10::complex<float>(0, 1), at::kComplexFloat);
      all_reduce(world, z, c10d::ReduceOp::PRODUCT)->wait();  // i to the fourth power.
      EXPECT_TRUE(z.equal(at::full({size}, c10::complex<float>(1, 0), at::kComplexFloat)));
      const auto shorts = at::full({size}, world.rank() + 1, at::kShort);
      all_reduce(world, shorts, c10d::ReduceOp::MAX)->wait();
      EXPECT_TRUE(shorts.equal(at::full({size}, 4, at::kShort)));
      const auto bits = at::full({size}, world.rank() == 2, at::kBool);
      all_reduce(world, bits, c10d::ReduceOp::BOR)->wait();
      EXPECT_TRUE(bits.all().item<bool>());
    }
  });
}

}  // namespace
}  // namespace lockstep::comm
