#include "lockstep/comm/backends/hosts/failure_reason.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/gloo/headers/gloo/declarations.h"
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

PeerError reason_for(const std::exception& error, const std::vector<std::string>& silent = {}) {
  return reason_of(error, three_hosts(), 0, silent);
}

std::string reason(const std::string& words, const std::vector<std::string>& silent = {}) {
  return reason_for(gloo::IoException(words), silent).what();
}

TEST(FailureReason, TheHostOfTheBrokenConnectionIsNamed) {
  const auto text = reason("Connection closed by peer [10.0.0.3]:4711");
  EXPECT_THAT(text, StartsWith("host 'c' (10.0.0.3; rank 2) broke its connection"));
  EXPECT_THAT(text, HasSubstr("rank 0 saw: Connection closed by peer"));
}

TEST(FailureReason, ASilentHostIsNotTakenForOneThatClosed) {
  EXPECT_THAT(reason("Connection closed by peer", {"10.0.0.2"}),
              StartsWith("host 'b' (10.0.0.2; rank 1) does not answer any more"));
  EXPECT_THAT(reason("read [10.0.0.2]: Connection timed out"), HasSubstr("does not answer"));
}

TEST(FailureReason, ALateHostIsNotTakenForADeadOne) {
  const auto late =
      reason_for(gloo::IoException("Timed out waiting 300ms for recv operation to complete"));
  EXPECT_THAT(late.what(), HasSubstr("has not arrived in time"));
  EXPECT_EQ(late.cause(), PeerError::Cause::kLate);
}

TEST(FailureReason, WhatGoesWrongHereIsBlamedOnNobodyElse) {
  const std::string text =
      reason_for(std::runtime_error("Connection closed, says one who is not Gloo")).what();
  EXPECT_THAT(text, StartsWith("rank 0 failed in it"));
  EXPECT_THAT(text, Not(HasSubstr("host")));
}

TEST(FailureReason, WhatSharedMemorySaysStandsAsItIs) {
  const auto late = reason_for(PeerError("rank 1 is late", PeerError::Cause::kLate));
  EXPECT_STREQ(late.what(), "rank 1 is late");
  EXPECT_EQ(late.cause(), PeerError::Cause::kLate);
}

TEST(FailureReason, ARankThatLeftIsNotTakenForOneThatDied) {
  using How = net::RankGone::How;
  const auto text = [](How how) {
    return std::string(reason_for(net::RankGone(2, how, "its words")).what());
  };
  EXPECT_THAT(text(How::kLeft), StartsWith("rank 2 on host 'c' (10.0.0.3; rank 2) left the group"));
  EXPECT_THAT(text(How::kClosed), HasSubstr("ended or left the group"));
  EXPECT_THAT(text(How::kDied), HasSubstr("broke its connection"));
  EXPECT_THAT(text(How::kDied), HasSubstr("rank 0 saw: its words"));
}

TEST(FailureReason, TheFirstReasonIsEverybodys) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const PeerError mine("the first", PeerError::Cause::kLate);
  EXPECT_STREQ(first_reason(store, mine).what(), "the first");
  const PeerError first = first_reason(store, PeerError("the second"));
  EXPECT_STREQ(first.what(), "the first");
  EXPECT_EQ(first.cause(), PeerError::Cause::kLate);
  const auto asked = std::make_shared<std::atomic<bool>>(false);
  EXPECT_TRUE(has_reason(store, asked));
  EXPECT_FALSE(*asked);
  EXPECT_FALSE(has_reason(c10::make_intrusive<c10d::HashStore>(), asked));
  *asked = true;
  EXPECT_FALSE(has_reason(store, asked)) << "while it owes an answer";
}

}  // namespace
}  // namespace lockstep::comm
