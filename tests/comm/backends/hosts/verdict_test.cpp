#include "lockstep/comm/backends/hosts/verdict.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/net/message.h"

namespace lockstep::comm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

HostMap three_hosts() {
  return {{{.id = "a", .name = "a", .addresses = {"10.0.0.1"}},
           {.id = "b", .name = "b", .addresses = {"10.0.0.2"}},
           {.id = "c", .name = "c", .addresses = {"10.0.0.3"}}},
          0};
}

std::string reason(const std::string& words, const std::vector<std::string>& silent = {}) {
  return reason_of(std::runtime_error(words), three_hosts(), 0, silent);
}

TEST(HostVerdict, TheHostOfTheBrokenConnectionIsNamed) {
  const auto text = reason("Connection closed by peer [10.0.0.3]:4711");
  EXPECT_THAT(text, StartsWith("host 'c' (10.0.0.3; rank 2) broke its connection"));
  EXPECT_THAT(text, HasSubstr("rank 0 saw: Connection closed by peer"));
}

TEST(HostVerdict, ASilentHostIsNotTakenForOneThatClosed) {
  EXPECT_THAT(reason("Connection closed by peer", {"10.0.0.2"}),
              StartsWith("host 'b' (10.0.0.2; rank 1) does not answer any more"));
  EXPECT_THAT(reason("read [10.0.0.2]: Connection timed out"), HasSubstr("does not answer"));
}

TEST(HostVerdict, ALateHostIsNotTakenForADeadOne) {
  EXPECT_THAT(reason("Timed out waiting 300ms for recv operation to complete"),
              HasSubstr("has not arrived in time"));
}

TEST(HostVerdict, WhatGoesWrongHereIsBlamedOnNobodyElse) {
  const auto text = reason("you tried to allocate 4 bytes");
  EXPECT_THAT(text, StartsWith("rank 0 failed in it"));
  EXPECT_THAT(text, Not(HasSubstr("host")));
}

TEST(HostVerdict, WhatSharedMemorySaysStandsAsItIs) {
  EXPECT_EQ(reason_of(PeerError("rank 1 was killed"), three_hosts(), 0, {}), "rank 1 was killed");
}

TEST(HostVerdict, ARankThatLeftIsNotTakenForOneThatDied) {
  using How = net::RankGone::How;
  const auto text = [](How how) {
    return reason_of(net::RankGone(2, how, "its words"), three_hosts(), 0, {});
  };
  EXPECT_THAT(text(How::kLeft), StartsWith("rank 2 on host 'c' (10.0.0.3; rank 2) left the group"));
  EXPECT_THAT(text(How::kClosed), HasSubstr("ended or left the group"));
  EXPECT_THAT(text(How::kDied), HasSubstr("broke its connection"));
  EXPECT_THAT(text(How::kDied), HasSubstr("rank 0 saw: its words"));
}

TEST(HostVerdict, TheFirstReasonIsEverybodys) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_EQ(first_reason(store, "the first"), "the first");
  EXPECT_EQ(first_reason(store, "the second"), "the first");
  const auto asked = std::make_shared<std::atomic<bool>>(false);
  EXPECT_TRUE(has_reason(store, asked));
  EXPECT_FALSE(*asked);
  EXPECT_FALSE(has_reason(c10::make_intrusive<c10d::HashStore>(), asked));
  *asked = true;
  EXPECT_FALSE(has_reason(store, asked)) << "while it owes an answer";
}

}  // namespace
}  // namespace lockstep::comm
