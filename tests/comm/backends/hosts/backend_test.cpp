#include "lockstep/comm/backends/hosts/backend.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <cmath>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::all_reduce;
using lockstep::testing::kTwoHosts;
using lockstep::testing::run_ranks;
using lockstep::testing::Tensors;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(HostsBackend, WorksRunInTheBackgroundAndMayBeAwaitedInAnyOrder) {
  run_ranks(
      4,
      [](Group& world) {
        Tensors tensors;
        std::vector<c10::intrusive_ptr<c10d::Work>> works;
        for (int i = 0; i < 20; ++i) {
          tensors.push_back(at::full({1000}, static_cast<float>(i)));
          works.push_back(all_reduce(world, tensors.back()));
        }
        works.back()->getFuture()->wait();
        for (int i = 0; i < 20; ++i) {
          const auto k = static_cast<std::size_t>(world.rank() % 2 == 0 ? i : 19 - i);
          works[k]->wait();
          EXPECT_EQ(tensors[k][999].item<float>(), 4.0F * static_cast<float>(k));
        }
      },
      kTwoHosts);
}

TEST(HostsBackend, SubgroupsInsideAndAcrossHosts) {
  run_ranks(
      4,
      [](Group& world) {
        for (const auto& ranks : std::vector<std::vector<int>>{{0, 1}, {1, 2}, {0, 2, 3}}) {
          const auto group = world.new_group(ranks);
          if (!group.is_member()) {
            continue;
          }
          EXPECT_EQ(group.backend()->getBackendName(), "lockstep") << "wherever the ranks are";
          const auto tensor = at::full({5}, 1.0F);
          group.all_reduce(tensor).wait();
          EXPECT_EQ(tensor[4].item<float>(), static_cast<float>(ranks.size()));
        }
      },
      kTwoHosts);
}

// Gloo counts the collectives of a group; ours and its own must not be of one.
TEST(HostsBackend, WorksInTheBackgroundDoNotMeetThoseOfGloo) {
  run_ranks(
      2,
      [](Group& world) {
        for (int i = 0; i < 50; ++i) {
          const auto sum = at::full({2000000}, 1.0F);
          const auto work = all_reduce(world, sum);
          Tensors inputs{at::full({3}, static_cast<float>(world.rank()))};
          std::vector<Tensors> outputs{{at::zeros({3}), at::zeros({3})}};
          const auto gathered = world.backend()->allgather(outputs, inputs, {});
          gathered->wait();
          work->wait();
          ASSERT_EQ(sum[1999999].item<float>(), 2);
          ASSERT_EQ(outputs[0][1][2].item<float>(), 1);
        }
      },
      kTwoHosts);
}

TEST(HostsBackend, DroppingAGroupWithAWorkThatNobodyJoinsDoesNotWait) {
  run_ranks(
      2,
      [](Group& world) {
        const auto begin = std::chrono::steady_clock::now();
        {
          const auto group = world.new_group({0, 1});
          if (world.rank() == 0) {
            (void)group.all_reduce(at::zeros({10}));
            ::usleep(100000);
          }
        }
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
        world.barrier();
      },
      kTwoHosts);
}

TEST(HostsBackend, ConjugatesAreSummed) {
  run_ranks(
      2,
      [](Group& world) {
        const auto z = at::full({3}, c10::complex<float>(1, 2), at::kComplexFloat).conj();
        all_reduce(world, z)->wait();
        EXPECT_EQ(z[0].item<c10::complex<float>>(), c10::complex<float>(2, -4));
      },
      kTwoHosts);
}

// What a group on one host does, one over several does: the same calls, the same results.
void reduce_in_every_way(Group& world) {
  const int n = world.size();
  for (const auto& [op, expected] : std::vector<std::pair<c10d::ReduceOp, double>>{
           {c10d::ReduceOp::SUM, n * (n + 1) / 2.0},
           {c10d::ReduceOp::AVG, std::trunc((n + 1) / 2.0)},
           {c10d::ReduceOp::MIN, 1},
           {c10d::ReduceOp::MAX, n}}) {
    for (const auto dtype : {at::kShort, at::kInt}) {
      c10d::ReduceOptions to;
      to.reduceOp = op;
      to.rootRank = n - 1;
      const auto wide = at::full({3, 4}, world.rank() + 1, dtype);
      Tensors gaps{wide.slice(1, 0, 4, 2)};
      world.backend()->reduce(gaps, to)->wait();
      const double sum = world.rank() == n - 1 ? 6 * expected + 6 * n : 12.0 * (world.rank() + 1);
      EXPECT_EQ(wide.sum().item<double>(), sum) << "only the root's tensor changes";

      c10d::ReduceScatterOptions options;
      options.reduceOp = op;
      at::Tensor output = at::full({2, 3}, -1, dtype).t();
      at::Tensor input = at::full({6 * n}, world.rank() + 1, dtype);
      world.backend()->_reduce_scatter_base(output, input, options)->wait();
      EXPECT_EQ(output.sum().item<double>(), 6 * expected);
    }
  }
  c10d::ReduceScatterOptions half;
  half.reduceOp = lockstep::testing::premultiplied_sum(0.5);
  Tensors outputs{at::zeros({2})};
  std::vector<Tensors> inputs{Tensors(static_cast<std::size_t>(n), at::full({2}, 4.0F))};
  world.backend()->reduce_scatter(outputs, inputs, half)->wait();
  EXPECT_EQ(outputs[0][1].item<float>(), 2.0F * static_cast<float>(n));
  Tensors nan{at::full({2}, world.rank() == 1 ? NAN : 1.0F)};
  c10d::ReduceOptions to_first;
  to_first.reduceOp = c10d::ReduceOp::MAX;
  world.backend()->reduce(nan, to_first)->wait();
  EXPECT_TRUE(world.rank() > 1 || std::isnan(nan[0][0].item<float>()));
}

TEST(HostsBackend, ReducesAsAGroupOnOneHostDoes) {
  lockstep::testing::on_ranks(4, reduce_in_every_way);
  lockstep::testing::run_on_hosts({1, 2, 1}, reduce_in_every_way);
}

// One number for a collective, the same on all ranks, whatever it is made of and whatever some of
// them did in between.
TEST(HostsBackend, ErrorsNameTheUsersCollectiveByOneNumber) {
  lockstep::testing::run_on_hosts({1, 2, 1}, [](Group& world) {
    const auto large = at::full({3000000}, 1.0F);  // In several pieces, of several steps each.
    world.all_reduce(large).wait();                // #1
    if (world.rank() < 2) {
      EXPECT_THROW(world.broadcast(large, 9).wait(), UsageError);  // Not counted.
    }
    if (world.rank() == 0) {
      world.send(at::zeros({3}), 3).wait();  // Nor are messages.
    } else if (world.rank() == 3) {
      world.recv(at::zeros({3}), 0).wait();
    }
    world.barrier();                    // #2
    (void)world.all_gather_bytes("x");  // #3 and #4
    EXPECT_EQ(world.backend()->getSequenceNumberForGroup(), 4U);
    if (world.rank() == 2) {
      ::usleep(1500000);
      return;
    }
    const std::string own = "all_reduce #5 on rank " + std::to_string(world.rank()) + " of 4: ";
    try {
      world.all_reduce(large, {.timeout = std::chrono::milliseconds(700)}).wait();
      ADD_FAILURE() << "rank 2 has not come";
    } catch (const PeerError& error) {
      const std::string words = error.what();
      EXPECT_THAT(words, ::testing::StartsWith(own));
      EXPECT_THAT(words, ::testing::Not(HasSubstr("reduce_scatter")));
      for (auto at = words.find('#'); at != std::string::npos; at = words.find('#', at + 1)) {
        EXPECT_THAT(words.substr(at),
                    ::testing::AnyOf(::testing::StartsWith("#5"), ::testing::StartsWith("#4")))
            << "this one, or the last that rank 2 has called: " << words;
      }
    }
    ::usleep(1500000);
  });
}

TEST(HostsBackend, GetErrorTellsWhetherTheGroupIsOfUse) {
  lockstep::testing::run_on_hosts({1, 1, 1}, [](Group& world) {
    EXPECT_EQ(world.backend()->getError(), c10d::ErrorType::SUCCESS);
    Tensors tensors{at::zeros({10 + world.rank()})};
    EXPECT_THROW(world.backend()->allreduce(tensors, {})->wait(), PeerError);
    EXPECT_EQ(world.backend()->getError(), c10d::ErrorType::COMM_ERROR);
    ::usleep(500000);
  });
}

TEST(HostsBackend, SparseTensorsAreSummed) {
  lockstep::testing::run_on_hosts({1, 1, 1}, [](Group& world) {
    Tensors tensors{at::full({3}, static_cast<float>(world.rank())).to_sparse()};
    world.backend()->allreduce(tensors, {})->wait();
    EXPECT_EQ(tensors[0].to_dense()[1].item<float>(), 3);
  });
}

// The other host never comes: Gloo's destructor would wait for what is on its way until the
// time-out.
TEST(HostsBackend, LeavingDuringACollectiveIsPrompt) {
  run_ranks(
      4,
      [](Group& world) {
        const auto start = std::chrono::steady_clock::now();
        {
          auto group = world.new_group({0, 1, 2, 3});
          if (world.rank() < 2) {
            Tensors tensors{at::full({1 << 20}, 1.0F)};
            const auto work = group.backend()->allreduce(tensors, {});
            ::usleep(500000);  // Until something of it is on the lane.
            group.destroy();
            EXPECT_ANY_THROW(work->wait());
          }
        }
        EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
      },
      kTwoHosts);
}

}  // namespace
}  // namespace lockstep::comm
