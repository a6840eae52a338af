#include "lockstep/comm/backends/mpi/backend.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/make_backend.h"
#include "tests/comm/forks.h"
#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::is_refused;
using ::testing::Not;
using testing::on_two_mpi_ranks;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;
using Tensors = std::vector<at::Tensor>;

TEST(MpiBackend, IsWhatTheGroupSpeaks) {
  on_two_mpi_ranks([](Group& world) {
    EXPECT_EQ(world.backend()->getBackendName(), "mpi");
    EXPECT_THAT(world.description(), AllOf(HasSubstr("backend mpi"), Not(HasSubstr(" over "))));
  });
}

TEST(MpiBackend, GroupsOfGroupsDoNotMixTheirMessages) {
  testing::run_ranks(
      3,
      [](Group& world) {
        auto pair = world.new_group({2, 0});
        auto alone = world.new_group({1});
        auto everyone = at::full({1}, 1);
        auto some = at::full({1}, world.rank() + 10);
        auto work = world.all_reduce(everyone);
        if (pair.is_member()) {
          pair.all_reduce(some).wait();
          EXPECT_EQ(pair.rank(), world.rank() == 2 ? 0 : 1);
          EXPECT_EQ(some.item<std::int64_t>(), 22);
        } else {
          alone.all_reduce(some).wait();
          EXPECT_EQ(some.item<std::int64_t>(), 11);
        }
        work.wait();
        EXPECT_EQ(everyone.item<std::int64_t>(), 3);
      },
      "mpi");
}

TEST(MpiBackend, MoreRanksThanMpirunStartedSaysHowToStartThem) {
  EXPECT_THAT(
      [] { make_backend(c10::make_intrusive<c10d::HashStore>(), 1, 99, {.name = "mpi"}); },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("on rank 1 of 99"), HasSubstr("MPI_COMM_WORLD has"),
                                      HasSubstr("mpirun -n 99"))));
}

TEST(MpiBackend, TwoRanksOfOneProcessAreRefused) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::string refusal;
  const auto join = [&](int rank) {
    try {
      make_backend(store, rank, 2, {.name = "mpi", .timeout = std::chrono::seconds(30)});
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  std::string other;
  std::thread second([&] { other = join(1); });
  EXPECT_THAT(join(0), HasSubstr("ranks 0 and 1 are both rank"));
  second.join();
  EXPECT_THAT(other, HasSubstr("start all ranks with one mpirun"));
}

TEST(MpiBackend, AMessageOfAnotherSizeIsAUsageError) {
  on_two_mpi_ranks([](Group& world) {
    Tensors tensors{at::full({world.rank() == 0 ? 2 : 3}, 1.0)};
    if (world.rank() == 0) {
      world.backend()->send(tensors, 1, 0)->wait();
      EXPECT_THROW(world.backend()->send(tensors, 1, -1), UsageError);
    } else {
      EXPECT_THAT([&] { world.backend()->recv(tensors, 0, 0)->wait(); },
                  ThrowsMessage<UsageError>(HasSubstr("the message has 2 elements, expected 3")));
    }
  });
}

TEST(MpiBackend, AnAbortEndsWhatIsUnderWay) {
  on_two_mpi_ranks([](Group& world) {
    auto pair = world.new_group({0, 1});
    if (world.rank() == 0) {
      Tensors tensors{at::full({3}, 1.0)};
      const auto work = pair.backend()->allreduce(tensors);
      pair.backend()->abort();
      EXPECT_THAT([&] { work->wait(); },
                  ThrowsMessage<PeerError>(HasSubstr("it was aborted on rank 0")));
      EXPECT_THROW(pair.backend()->allreduce(tensors), PeerError);
    }
    world.barrier();
  });
}

// One number for a collective, the same on all ranks, whatever some of them did in between.
TEST(MpiBackend, ErrorsNameTheUsersCollectiveByOneNumber) {
  testing::run_ranks(
      3,
      [](Group& world) {
        const auto tensor = at::full({3}, 1.0F);
        world.all_reduce(tensor).wait();  // #1
        if (world.rank() == 0) {
          EXPECT_THROW(world.broadcast(tensor, 9).wait(), UsageError);  // Not counted.
          Tensors sparse{tensor.to_sparse()};
          EXPECT_THROW(world.backend()->allreduce(sparse), UsageError);
          world.send(tensor, 1).wait();  // Nor are messages.
        } else if (world.rank() == 1) {
          world.recv(tensor, 0).wait();
        }
        world.barrier();                    // #2
        (void)world.all_gather_bytes("x");  // #3 and #4
        EXPECT_EQ(world.backend()->getSequenceNumberForGroup(), 4U);
        if (world.rank() == 2) {
          world.store()->wait({"0 has failed", "1 has failed"});
          return;
        }
        const std::string own = " #5 on rank " + std::to_string(world.rank()) + " of 3";
        EXPECT_THAT([&] { world.broadcast(tensor, 9).wait(); },
                    ThrowsMessage<UsageError>(StartsWith("broadcast" + own)));
        EXPECT_THAT(
            [&] { world.all_reduce(tensor, {.timeout = std::chrono::milliseconds(300)}).wait(); },
            ThrowsMessage<PeerError>(StartsWith("all_reduce" + own + ": ")));
        world.store()->set(std::to_string(world.rank()) + " has failed", "1");
      },
      "mpi");
}

// Backends of their own, so that the fork destroys the last pointer to them. What is under way
// keeps a communicator, so there is one with nothing under way.
TEST(MpiBackend, AForkIsRefusedAndDestroysNothingOfItsParents) {
  on_two_mpi_ranks([](Group& world) {
    const int other = 1 - world.rank();
    const auto store = c10::make_intrusive<c10d::PrefixStore>("forks", world.store());
    auto backend = make_backend(store, world.rank(), 2, {.name = "mpi"});
    auto idle = make_backend(c10::make_intrusive<c10d::PrefixStore>("idle", world.store()),
                             world.rank(), 2, {.name = "mpi"});
    Tensors sum{at::full({3}, 1.0F)};
    Tensors message{at::full({3}, 0.0F)};
    auto finished = backend->allreduce(sum);
    finished->wait();
    auto pending = backend->recv(message, other, 0);
    testing::in_a_fork([&] {
      const bool refused =
          is_refused([&] { backend->allreduce(sum); }) && is_refused([&] { backend->barrier(); }) &&
          is_refused([&] { backend->send(sum, other, 0); }) &&
          is_refused([&] { pending->isCompleted(); }) && is_refused([&] { pending->wait(); }) &&
          is_refused([&] { (void)pending->getFuture(); }) && is_refused([] {
            make_backend(c10::make_intrusive<c10d::HashStore>(), 0, 1, {.name = "mpi"});
          });
      const bool has_result = finished->isCompleted() && finished->wait();
      backend->abort();
      backend->shutdown();
      finished.reset();
      pending.reset();
      backend.reset();
      idle.reset();
      return refused && has_result;
    });
    Tensors given{at::full({3}, 7.0F)};
    backend->send(given, other, 0)->wait();
    pending->wait();
    EXPECT_EQ(message[0].sum().item<float>(), 21);
    backend->allreduce(sum)->wait();
    EXPECT_EQ(sum[0].sum().item<float>(), 12);
    idle->allreduce(sum)->wait();
    EXPECT_EQ(sum[0].sum().item<float>(), 24);
  });
}

TEST(MpiBackend, BarriersAndBytesGoThroughItToo) {
  on_two_mpi_ranks([](Group& world) {
    world.barrier();
    EXPECT_THAT(world.all_gather_bytes(std::string(3, static_cast<char>('a' + world.rank()))),
                ::testing::ElementsAre("aaa", "bbb"));
  });
}

}  // namespace
}  // namespace lockstep
