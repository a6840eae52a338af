#include "lockstep/comm/hosts_backend.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <unistd.h>

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

TEST(HostsBackend, CoalescesAndKeepsGaps) {
  run_ranks(
      4,
      [](Group& world) {
        const auto wide = at::zeros({4, 6});
        Tensors tensors{wide.narrow(1, 1, 2).fill_(1), at::full({2}, 2, at::kLong)};
        world.backend()->allreduce_coalesced(tensors, {})->wait();
        EXPECT_EQ(wide.sum().item<float>(), 4.0F * 8);
        EXPECT_EQ(tensors[1][0].item<int>(), 8);
      },
      kTwoHosts);
}

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
        for (const auto& [ranks, backend] : std::vector<std::pair<std::vector<int>, std::string>>{
                 {{0, 1}, "shm"}, {{1, 2}, "lockstep"}, {{0, 2, 3}, "lockstep"}}) {
          const auto group = world.new_group(ranks);
          if (!group.is_member()) {
            continue;
          }
          EXPECT_EQ(group.backend()->getBackendName(), backend);
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

TEST(HostsBackend, ConjugatesAreSummedAndGapsRefusedWhereGlooWouldNotSeeThem) {
  run_ranks(
      2,
      [](Group& world) {
        const auto z = at::full({3}, c10::complex<float>(1, 2), at::kComplexFloat).conj();
        all_reduce(world, z)->wait();
        EXPECT_EQ(z[0].item<c10::complex<float>>(), c10::complex<float>(2, -4));
        Tensors gaps{at::zeros({3, 4}).t()};
        c10d::ReduceOptions options;
        EXPECT_THAT([&] { world.backend()->reduce(gaps, options); },
                    ThrowsMessage<UsageError>(HasSubstr("contiguous")));
        Tensors shorts{at::zeros({3}, at::kShort)};  // Which Gloo does not reduce.
        EXPECT_THROW(world.backend()->reduce(shorts, options)->wait(), UsageError);
        world.barrier();
      },
      kTwoHosts);
}

TEST(HostsBackend, WrongCallsAreRefusedByName) {
  run_ranks(
      2,
      [](Group& world) {
        Tensors two{at::zeros({1}), at::zeros({1})};
        EXPECT_THAT([&] { world.backend()->broadcast(two, {}); },
                    ThrowsMessage<UsageError>(HasSubstr("broadcast on rank")));
        EXPECT_THAT([&] { all_reduce(world, at::zeros({2}, at::kBool), c10d::ReduceOp::AVG); },
                    ThrowsMessage<UsageError>(HasSubstr("avg is not defined for Bool")));
        Tensors one{at::zeros({1})};
        c10d::BroadcastOptions options;
        options.rootRank = 5;
        EXPECT_THAT([&] { world.backend()->broadcast(one, options); },
                    ThrowsMessage<UsageError>(HasSubstr("expected 0 to 1")));
        world.barrier();
      },
      kTwoHosts);
}

}  // namespace
}  // namespace lockstep::comm
