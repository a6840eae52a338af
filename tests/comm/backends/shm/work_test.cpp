#include "lockstep/comm/backends/shm/work.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::all_reduce;
using lockstep::testing::on_ranks;
using lockstep::testing::Tensors;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ShmReceive, ReceivesByTagAndFromAnyone) {
  on_ranks(3, [](Group& world) {
    const auto backend = world.backend();
    if (world.rank() == 0) {
      int seen = 0;
      for (int i = 0; i < 2; ++i) {
        Tensors message{at::zeros({3})};
        const auto work = backend->recvAnysource(message, 7);
        work->wait();
        EXPECT_EQ(message[0][0].item<float>(), work->sourceRank());
        seen += work->sourceRank();
      }
      EXPECT_EQ(seen, 3);
    } else {
      Tensors message{at::full({3}, static_cast<float>(world.rank()))};
      backend->send(message, 0, 7)->wait();
    }
  });
}

TEST(ShmReceive, TwoRanksMaySendManyMessagesBeforeTheyReceive) {
  on_ranks(2, [](Group& world) {
    const auto backend = world.backend();
    const int other = 1 - world.rank();
    constexpr int kMany = 500;
    for (int i = 0; i < kMany; ++i) {
      Tensors message{at::full({100}, i)};
      (void)backend->send(message, other, 0);
    }
    for (int i = 0; i < kMany; ++i) {
      Tensors message{at::full({100}, -1)};
      backend->recv(message, other, 0)->wait();
      ASSERT_EQ(message[0][99].item<std::int64_t>(), i);
    }
  });
}

TEST(ShmReceive, AMessageOfAnotherSizeIsAnErrorOfTheReceiver) {
  on_ranks(2, [](Group& world) {
    const auto backend = world.backend();
    if (world.rank() == 0) {
      Tensors message{at::zeros({4})};
      backend->send(message, 1, 0)->wait();
    } else {
      Tensors message{at::zeros({3})};
      EXPECT_THAT([&] { backend->recv(message, 0, 0)->wait(); },
                  ThrowsMessage<UsageError>(HasSubstr("rank 0 sent 16 bytes")));
    }
    all_reduce(world, at::zeros({1}))->wait();  // The group is as good as before.
  });
}

TEST(ShmReceive, OneThatTimedOutLeavesTheMessageToTheNext) {
  on_ranks(2, [](Group& world) {
    const auto backend = world.backend();
    if (world.rank() == 0) {
      for (const bool from_anyone : {false, true}) {
        const auto receive = [&](Tensors& message) {
          return from_anyone ? backend->recvAnysource(message, 0) : backend->recv(message, 1, 0);
        };
        Tensors lost{at::full({3}, -1.0F)};
        const auto given_up = receive(lost);
        EXPECT_THROW(given_up->wait(std::chrono::milliseconds(1)), PeerError);
        EXPECT_TRUE(given_up->isCompleted());
        EXPECT_FALSE(given_up->isSuccess());
        EXPECT_NE(given_up->exception(), nullptr);
        world.store()->set(from_anyone ? "gave up again" : "gave up", "1");
        Tensors message{at::zeros({3})};
        receive(message)->wait(std::chrono::seconds(30));
        EXPECT_EQ(message[0][2].item<float>(), 7);
        EXPECT_EQ(lost[0][0].item<float>(), -1);
        EXPECT_THROW(given_up->wait(), PeerError);
      }
    } else {
      for (const char* key : {"gave up", "gave up again"}) {
        world.store()->wait({key});
        Tensors message{at::full({3}, 7.0F)};
        backend->send(message, 0, 0)->wait();
      }
    }
    world.barrier();
  });
}

// A rank of a group that meets in a file; spawn() would end the others when one dies.
c10::intrusive_ptr<c10d::Backend> join_in_file(const std::string& file, int rank) {
  return BackendRegistry::built_in().make("shm",
                                          {.store = c10::make_intrusive<c10d::FileStore>(file, 3),
                                           .rank = rank,
                                           .size = 3,
                                           .timeout = std::chrono::seconds(60),
                                           .connect_timeout = std::chrono::seconds(60)});
}

// Nobody waits for the works: they are asked whether they are done, and no more.
void expect_all_to_fail(const std::vector<c10::intrusive_ptr<c10d::Work>>& works) {
  const auto deadline = Deadline::in(std::chrono::seconds(30));
  for (const auto& work : works) {
    while (!work->isCompleted() && !deadline.passed()) {
      std::this_thread::yield();
    }
    ASSERT_TRUE(work->isCompleted());
    EXPECT_FALSE(work->isSuccess());
    ASSERT_NE(work->exception(), nullptr);
    EXPECT_THAT([&] { std::rethrow_exception(work->exception()); },
                ThrowsMessage<PeerError>(HasSubstr("rank 1 (pid ")));
  }
}

TEST(ShmReceive, WorksOfAGroupWithADeadRankEndByThemselves) {
  const test::TemporaryFolder folder;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(test::fork_child([&, rank] {
      const auto backend = join_in_file(folder.file("store"), rank);
      Tensors first{at::zeros({3})};
      Tensors second{at::zeros({3})};
      Tensors sum{at::zeros({3})};
      backend->barrier({})->wait();
      if (rank == 1) {
        ::raise(SIGKILL);
      }
      expect_all_to_fail({backend->recv(first, 1, 0), backend->recvAnysource(second, 0),
                          backend->allreduce(sum, {})});
      return ::testing::Test::HasFailure() ? 1 : 0;
    }));
  }
  EXPECT_EQ(test::wait_for(ranks[0]), 0);
  EXPECT_TRUE(WIFSIGNALED(test::wait_for(ranks[1])));
  EXPECT_EQ(test::wait_for(ranks[2]), 0);
}

// Whether all of the calls are refused in this fork.
bool are_refused(const std::vector<std::function<void()>>& calls) {
  return std::all_of(calls.begin(), calls.end(), [](const auto& call) {
    try {
      call();
    } catch (const UsageError&) {
      return true;
    }
    return false;
  });
}

TEST(ShmReceive, AForkTakesNothingOfItsParents) {
  on_ranks(2, [](Group& world) {
    const auto backend = world.backend();
    Tensors message{at::full({3}, 7.0F)};
    const auto sum = at::full({3}, 1.0F);
    if (world.rank() == 1) {
      backend->send(message, 0, 0)->wait();
      world.barrier();
      world.store()->wait({"forked"});
      all_reduce(world, sum)->wait();
      return;
    }
    message[0].zero_();
    const auto receive = backend->recv(message, 1, 0);
    world.barrier();
    const auto work = all_reduce(world, sum);
    EXPECT_EQ(test::run_in_child([&] {
                ::alarm(60);
                return are_refused(
                           {[&] { receive->isCompleted(); }, [&] { receive->wait(); },
                            [&] { work->isCompleted(); }, [&] { work->wait(); },
                            [&] { work->getFuture(); }, [&] { backend->recvAnysource(message, 0); },
                            [&] { backend->send(message, 1, 0); }, [&] { backend->barrier({}); }})
                           ? 0
                           : 1;
              }),
              0);
    world.store()->set("forked", "1");
    receive->wait();
    EXPECT_EQ(message[0][0].item<float>(), 7);
    work->wait();
    EXPECT_EQ(sum[0].item<float>(), 2);
  });
}

}  // namespace
}  // namespace lockstep::comm
