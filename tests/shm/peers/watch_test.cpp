#include "lockstep/shm/peers/watch.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <thread>

#include "lockstep/base/error.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::on_processes;
using testing::on_threads;
using testing::small_options;
using testing::soon;
using testing::tensor_of;
using ::testing::ThrowsMessage;
using Clock = Deadline::Clock;

constexpr Fold kSumOfFloats{.reduction = {DType::kFloat, ReduceOp::kSum}};

void sum(Team& team, std::size_t count, Deadline deadline = soon()) {
  std::vector<float> values(count, 1.0F);
  all_reduce(team, tensor_of(values), kSumOfFloats, deadline);
}

// Written by the ranks, read by all.
class SharedPids {
 public:
  SharedPids()
      : pids_(static_cast<std::array<pid_t, 8>*>(::mmap(
            nullptr, sizeof *pids_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedPids() { ::munmap(pids_, sizeof *pids_); }
  SharedPids(const SharedPids&) = delete;
  SharedPids& operator=(const SharedPids&) = delete;
  std::array<pid_t, 8>* operator->() const { return pids_; }

 private:
  std::array<pid_t, 8>* pids_;
};

class ShmDeath : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Victims, ShmDeath, ::testing::Values(0, 1, 3));

TEST_P(ShmDeath, EndsEverySurvivorsWaitWithinASecondAndIsNamed) {
  const int victim = GetParam();
  on_processes(4,
               [victim](Team& team) {
                 sum(team, 5000);
                 if (team.rank() == victim) {
                   team.watch().report({.phase = Phase::kForward, .step = 7});
                   ::kill(::getpid(), SIGKILL);
                 }
                 const auto start = Clock::now();
                 EXPECT_THAT(
                     [&] { sum(team, 5000); },
                     ThrowsMessage<PeerError>(
                         AllOf(HasSubstr("all_reduce #2 (sum, float32, 5000 elements: 20000 bytes) "
                                         "on rank " +
                                         std::to_string(team.rank()) + " of 4"),
                               HasSubstr("rank " + std::to_string(victim) + " (pid "),
                               HasSubstr("(in forward of step 7, its last call: all_reduce #1"))));
                 EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
                 // It stays broken, at once.
                 EXPECT_THROW(sum(team, 1), PeerError);
               },
               small_options(), {victim});
}

TEST(ShmDeath, InTheMiddleOfALargeOneIsNamedToo) {
  on_processes(
      2,
      [](Team& team) {
        if (team.rank() == 1) {
          std::thread([] {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));  // Somewhere in between.
            ::kill(::getpid(), SIGKILL);
          }).detach();
        }
        EXPECT_THAT(
            [&] {
              while (true) {
                sum(team, 200000);
              }
            },
            ThrowsMessage<PeerError>(HasSubstr("rank 1 (pid ")));
      },
      small_options(), {1});
}

TEST(ShmDeath, OfARankThatHadArrivedIsNoticedWhileAThirdIsLate) {
  const SharedPids pids;
  on_processes(
      3,
      [&](Team& team) {
        pids->at(static_cast<std::size_t>(team.rank())) = ::getpid();
        barrier(team, soon());
        if (team.rank() == 2) {  // Late, until the others are done with each other.
          const auto deadline = Deadline::in(std::chrono::seconds(20));
          while (team.memory()->control(1).fate.standing.load() == 0 && !deadline.passed()) {
            std::this_thread::yield();
          }
          EXPECT_THROW(sum(team, 10), PeerError);
          return;
        }
        std::thread killer;
        if (team.rank() == 1) {
          killer = std::thread([&] {
            while (team.memory()->control(0).phase.load() < 2) {
              std::this_thread::yield();
            }
            ::kill(pids->at(0), SIGKILL);
          });
        }
        EXPECT_THAT([&] { sum(team, 10, Deadline::in(std::chrono::seconds(10))); },
                    ThrowsMessage<PeerError>(
                        AllOf(HasSubstr("rank 0 (pid "), ::testing::Not(HasSubstr("timed out")))));
        if (killer.joinable()) {
          killer.join();
        }
      },
      small_options(), {0});
}

TEST(ShmFork, IsNoMemberAndHarmsNobody) {
  on_processes(2, [](Team& team) {
    auto memory = allocate(team.memory(), team.rank(), std::size_t{48} << 20);
    std::memset(memory.get(), 7, std::size_t{48} << 20);
    const pid_t child = ::fork();
    if (child == 0) {
      memory.reset();  // Large enough to be given back to the machine.
      team.watch().leave();
      bool refused = false;
      try {
        sum(team, 10);
      } catch (const UsageError&) {
        refused = true;
      }
      ::_exit(refused ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(memory.get()[std::size_t{40} << 20], std::byte{7});
    sum(team, 10);
  });
}

TEST(ShmWatch, AFailedGroupUsesNoMemoryAgain) {
  on_threads(2, [](Team& team) {
    const auto memory = allocate(team.memory(), team.rank(), 100);
    EXPECT_THROW(sum(team, team.rank() == 0 ? 10 : 11), PeerError);
    EXPECT_THROW((void)allocate(team.memory(), team.rank(), 100), UsageError);
  });
}

TEST(ShmWatch, ALatePeerIsNamedAndLearnsThatTheOthersGaveUp) {
  on_processes(3, [](Team& team) {
    if (team.rank() == 2) {
      std::this_thread::sleep_for(
          std::chrono::seconds(2));  // The straggler, on a busy machine too.
      EXPECT_THAT([&] { sum(team, 10); },
                  ThrowsMessage<PeerError>(HasSubstr("gave up waiting for this rank")));
    } else {
      EXPECT_THAT([&] { sum(team, 10, Deadline::in(std::chrono::milliseconds(200))); },
                  ThrowsMessage<PeerError>(AllOf(HasSubstr("rank 2 (pid "),
                                                 HasSubstr("it has called no collective yet"))));
    }
  });
}

TEST(ShmWatch, AStoppedPeerIsToldWithinTwoSecondsAndGoesOn) {
  auto options = small_options();
  std::vector<std::int32_t> pids(2);
  std::vector<std::string> told;
  options.notice = [&](const std::string& text) {
    told.push_back(text);
    ::kill(pids[1], SIGCONT);
  };
  on_processes(
      2,
      [&](Team& team) {
        const std::vector<std::int32_t> own{::getpid()};
        all_gather(team,
                   {Output{reinterpret_cast<std::byte*>(pids.data()), 4},
                    Output{reinterpret_cast<std::byte*>(pids.data() + 1), 4}},
                   testing::input_of(own), DType::kInt32, soon());
        if (team.rank() == 1) {
          ::raise(SIGSTOP);
        }
        const auto start = Clock::now();
        sum(team, 5000);
        if (team.rank() == 0) {
          EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
          EXPECT_THAT(told, ::testing::ElementsAre(
                                AllOf(HasSubstr("rank 1 (pid "), HasSubstr("is stopped"))));
        }
      },
      options);
}

TEST(ShmWatch, AStoppedPeerIsAnErrorAtTheDeadline) {
  const SharedPids pids;
  on_processes(2,
               [&](Team& team) {
                 pids->at(static_cast<std::size_t>(team.rank())) = ::getpid();
                 barrier(team, soon());
                 if (team.rank() == 1) {
                   ::raise(SIGSTOP);
                   ::_exit(0);
                 }
                 EXPECT_THAT([&] { sum(team, 10, Deadline::in(std::chrono::milliseconds(300))); },
                             ThrowsMessage<PeerError>(
                                 AllOf(HasSubstr("rank 1 (pid "), HasSubstr("stopped"))));
                 ::kill(pids->at(1), SIGKILL);
               },
               small_options(), {1});
}

// Rank 0 waits for a word that rank 1 changes while it sleeps. Returns the bells that it missed.
std::uint64_t missed_bells_if(bool rings) {
  auto options = small_options();
  options.bell_patience = std::chrono::milliseconds(rings ? 60000 : 50);
  const auto teams = Team::in_process(2, options);
  std::atomic<bool> changed{false};
  std::thread other([&] {
    while (teams[0]->memory()->control(0).sleepers.load() == 0) {
      std::this_thread::yield();
    }
    changed = true;
    if (rings) {
      teams[1]->watch().ring(0);
    }
  });
  teams[0]->watch().wait({.what = [] { return "waiting"; },
                          .ready = [&] { return changed.load(); },
                          .awaited = [] { return std::vector<int>{1}; },
                          .needed = nullptr,
                          .deadline = soon()},
                         Watch::Then::kBreak);
  other.join();
  return teams[0]->watch().missed_bells();
}

TEST(ShmWatch, CountsAWaitThatEndedOnlyBecauseItLookedAgain) {
  EXPECT_EQ(missed_bells_if(/*rings=*/true), 0U);
  // A word that changes between the sleeper's two looks before it sleeps is no bell missed.
  std::uint64_t missed = 0;
  const auto deadline = soon();
  while (missed == 0 && !deadline.passed()) {
    missed = missed_bells_if(/*rings=*/false);
  }
  EXPECT_EQ(missed, 1U);
}

TEST(ShmWatch, ARankThatLeavesNeedNotBeWaitedFor) {
  on_threads(2, [](Team& team) {
    sum(team, 10);
    if (team.rank() == 1) {
      team.watch().leave();
      EXPECT_THAT([&] { sum(team, 10); },
                  ThrowsMessage<PeerError>(HasSubstr("has left the group")));
    } else {
      EXPECT_THAT([&] { sum(team, 10); }, ThrowsMessage<PeerError>(AllOf(
                                              HasSubstr("rank 1"), HasSubstr("left the group"))));
    }
  });
}

TEST(ShmWatch, OneThatLeavesEndsItsOwnWaits) {
  on_threads(2, [](Team& team) {
    if (team.rank() == 0) {
      std::thread other([&] { EXPECT_THROW(sum(team, 10), PeerError); });
      while (team.memory()->control(0).phase.load() == 0) {  // It is not in the meeting yet.
        std::this_thread::yield();
      }
      team.watch().leave();
      other.join();
    }
  });
}

TEST(ShmWatch, SurvivorsFormANewTeamInTheSameProcesses) {
  testing::FolderBoard second;
  on_processes(4,
               [&](Team& team) {
                 sum(team, 5000);
                 if (team.rank() == 0) {
                   ::kill(::getpid(), SIGKILL);
                 }
                 EXPECT_THROW(sum(team, 5000), PeerError);
                 const auto survivors =
                     Team::join(team.rank() - 1, 3, second, soon(), small_options());
                 std::vector<float> values(5000, 1.0F);
                 all_reduce(*survivors, tensor_of(values), kSumOfFloats, soon());
                 EXPECT_THAT(values, ::testing::Each(3.0F));
               },
               small_options(), {0});
}

}  // namespace
}  // namespace lockstep::shm
