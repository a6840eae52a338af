// A rank that says it saves a checkpoint is waited for, whatever the timeout; any other is not.
#include <gmock/gmock.h>

#include <mutex>
#include <thread>

#include "lockstep/base/error.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::on_threads;
using testing::small_options;
using testing::soon;
using ::testing::ThrowsMessage;

constexpr milliseconds kTimeout{200};

void meet(Team& team) { barrier(team, Deadline::in(kTimeout)); }

// Rank 0 comes after three times the timeout, and the others know before what it does.
void come_late(Team& team, Phase phase) {
  team.watch().report({.phase = phase, .step = 7});
  barrier(team, soon());
  std::this_thread::sleep_for(3 * kTimeout);
  team.watch().report({.phase = Phase::kBetweenSteps, .step = 7});
}

TEST(SavingRank, IsWaitedForAndNamedOnce) {
  auto options = small_options();
  std::mutex mutex;
  std::vector<std::string> notices;
  options.notice = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    notices.push_back(text);
  };
  on_threads(
      2,
      [](Team& team) {
        if (team.rank() == 0) {
          come_late(team, Phase::kSaving);
        } else {
          barrier(team, soon());
        }
        EXPECT_NO_THROW(meet(team));
      },
      options);
  EXPECT_THAT(notices, ::testing::ElementsAre(
                           AllOf(HasSubstr("rank 0 (pid "),
                                 HasSubstr("is busy: saving the checkpoint of step 7; "
                                           "waiting longer than the timeout of 200 ms"))));
}

// A large sum meets several times.
TEST(SavingRank, TheRestOfTheCollectiveHasTimeAsWell) {
  on_threads(2, [](Team& team) {
    if (team.rank() == 0) {
      come_late(team, Phase::kSaving);
    } else {
      barrier(team, soon());
    }
    meet(team);
    if (team.rank() == 0) {
      std::this_thread::sleep_for(kTimeout / 4);
    }
    EXPECT_NO_THROW(team.meet());
  });
}

// Whoever asks at the end of its time wants no more of it.
TEST(SavingRank, IsNotWaitedForIfTheTimeWasOverBefore) {
  on_threads(2, [](Team& team) {
    if (team.rank() == 0) {
      come_late(team, Phase::kSaving);
      EXPECT_THROW(meet(team), PeerError);
      return;
    }
    const auto passed = Deadline::in(kTimeout);
    barrier(team, soon());
    std::this_thread::sleep_until(passed.at());
    EXPECT_THROW(barrier(team, passed), PeerError);
  });
}

TEST(SavingRank, ThatDoesSomethingElseIsLate) {
  on_threads(2, [](Team& team) {
    if (team.rank() == 0) {
      come_late(team, Phase::kBetweenSteps);
      EXPECT_THROW(meet(team), PeerError);
      return;
    }
    barrier(team, soon());
    EXPECT_THAT([&] { meet(team); }, ThrowsMessage<PeerError>(AllOf(HasSubstr("timed out: rank 0"),
                                                                    HasSubstr("past step 7"))));
  });
}

// It has all of the time again when it has saved, and no more.
TEST(SavingRank, ThatDoesNotComeAfterwardsIsLate) {
  on_threads(2, [](Team& team) {
    if (team.rank() == 0) {
      come_late(team, Phase::kSaving);
      std::this_thread::sleep_for(3 * kTimeout);
      EXPECT_THROW(meet(team), PeerError);
      return;
    }
    barrier(team, soon());
    const auto since = Deadline::Clock::now();
    EXPECT_THAT([&] { meet(team); }, ThrowsMessage<PeerError>(HasSubstr("timed out: rank 0")));
    EXPECT_GE(Deadline::Clock::now() - since, 3 * kTimeout);
  });
}

}  // namespace
}  // namespace lockstep::shm
