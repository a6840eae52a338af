#include "lockstep/shm/peers/roster.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "lockstep/shm/peers/call.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using ::testing::HasSubstr;

TEST(Roster, CallsRanksByTheirNumberInTheJob) {
  const auto teams = Team::in_process(2, testing::small_options());
  Peer peer{.process = identify(::getpid()), .host = "box"};
  const std::string pid = std::to_string(::getpid());
  const Roster plain(1, *teams[0]->memory(), {peer, peer});
  EXPECT_EQ(plain.who(0), "rank 0 (pid " + pid + " on box)");
  EXPECT_EQ(plain.self(), "rank 1 of 2");
  peer.number = 7;
  const Roster numbered(1, *teams[0]->memory(), {peer, peer});
  EXPECT_EQ(numbered.who(0), "rank 7 (pid " + pid + " on box)");
  EXPECT_EQ(numbered.self(), "rank 7, one of 2 on its host");
}

TEST(Roster, TellsWhatARankDidLast) {
  const auto teams = Team::in_process(1, testing::small_options());
  const Roster roster(0, *teams[0]->memory(), {{.process = identify(::getpid()), .host = "box"}});
  EXPECT_EQ(roster.last_call_of(0), "it has called no collective yet");
  barrier(*teams[0], testing::soon());
  teams[0]->watch().report({.phase = Phase::kForward, .step = 3});
  EXPECT_THAT(roster.last_call_of(0), HasSubstr("in forward of step 3, its last call: barrier #1"));
}

TEST(Roster, ThisProcessHasNotEnded) {
  const auto teams = Team::in_process(1, testing::small_options());
  const Roster roster(0, *teams[0]->memory(), {{.process = identify(::getpid()), .host = "box"}});
  roster.look();
  EXPECT_FALSE(roster.ended_by(0));
  EXPECT_FALSE(roster.is_stopped(0));
}

}  // namespace
}  // namespace lockstep::shm
