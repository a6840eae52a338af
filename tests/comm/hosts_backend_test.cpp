#include "lockstep/comm/hosts_backend.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::all_reduce;
using lockstep::testing::kTwoHosts;
using lockstep::testing::premultiplied_sum;
using lockstep::testing::run_ranks;
using lockstep::testing::Tensors;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Two hosts with one rank each, with two and one, with two each, with three and two.
class HostsBackendOf : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, HostsBackendOf, ::testing::Values(2, 3, 4, 5));

TEST_P(HostsBackendOf, SumsEveryDtypeAndSize) {
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

TEST_P(HostsBackendOf, BroadcastsFromEveryRank) {
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

TEST(HostsBackend, KnowsEveryOperation) {
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

TEST(HostsBackend, PremultipliesAlsoForTheOnlyRankOfAHost) {
  run_ranks(
      3,
      [](Group& world) {
        const auto tensor = at::full({3}, static_cast<float>(world.rank() + 1));
        all_reduce(world, tensor, premultiplied_sum(0.5))->wait();
        EXPECT_EQ(tensor[1].item<float>(), 3);
      },
      kTwoHosts);
}

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

TEST(HostsBackend, ARankThatIsKilledIsNamedOnEveryHostAndTheRestFormANewGroup) {
  EXPECT_THAT(
      [] {
        spawn(4, [](int rank) {
          ::setenv("LOCKSTEP_HOST_ID", rank < 2 ? "here" : "there", 1);
          auto world = init_process_group({.timeout = std::chrono::seconds(60)});
          const auto tensor = at::full({1000}, 1.0F);
          world.all_reduce(tensor).wait();
          if (rank == 3) {
            ::usleep(200000);
            ::raise(SIGKILL);
          }
          const auto begin = std::chrono::steady_clock::now();
          try {
            world.all_reduce(tensor).wait();
            throw std::runtime_error("it went through");
          } catch (const PeerError& error) {
            const std::string text = error.what();
            if (text.find("rank 3") == std::string::npos ||
                std::chrono::steady_clock::now() - begin > std::chrono::seconds(3)) {
              throw std::runtime_error("named too late or not at all: " + text);
            }
          }
          ::usleep(2000000);  // spawn() would end the others at the first that comes back.
        });
      },
      ThrowsMessage<SpawnError>(AllOf(HasSubstr("rank 3"), HasSubstr("SIGKILL"))));
}

TEST(HostsBackend, ARankThatDoesNotComeIsAnErrorAtTheDeadlineOnAll) {
  run_ranks(
      4,
      [](Group& world) {
        if (world.rank() == 3) {
          ::usleep(1500000);
          return;
        }
        const auto tensor = at::full({10}, 1.0F);
        EXPECT_THAT(
            [&] { world.all_reduce(tensor, {.timeout = std::chrono::milliseconds(700)}).wait(); },
            ThrowsMessage<PeerError>(AllOf(HasSubstr("on rank " + std::to_string(world.rank())),
                                           AnyOf(HasSubstr("rank 3"), HasSubstr("ranks 2, 3")))));
        EXPECT_THROW(world.all_reduce(tensor).wait(), PeerError) << "it is broken now";
        ::usleep(1500000);
      },
      kTwoHosts);
}

TEST(HostsBackend, DifferentCallsOfTwoHostsAreAnErrorThatShowsBoth) {
  for (const int ranks : {2, 4}) {
    run_ranks(
        ranks,
        [](Group& world) {
          const bool here = world.rank() < world.size() / 2;
          EXPECT_THAT(
              [&] { all_reduce(world, at::zeros({here ? 10 : 12}))->wait(); },
              ThrowsMessage<PeerError>(AllOf(HasSubstr("calls do not match"),
                                             HasSubstr("10 elements"), HasSubstr("12 elements"))));
          ::usleep(500000);
        },
        kTwoHosts);
  }
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
