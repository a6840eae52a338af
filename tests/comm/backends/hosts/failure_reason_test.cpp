#include "lockstep/comm/backends/hosts/failure_reason.h"

#include <gmock/gmock.h>

#include <future>
#include <stdexcept>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/gloo/headers/gloo/declarations.h"
#include "lockstep/net/message.h"
#include "tests/support/soon.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::soon;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

HostMap three_hosts() {
  return {{{.id = "a", .name = "a", .addresses = {"10.0.0.1"}},
           {.id = "b", .name = "b", .addresses = {"10.0.0.2"}},
           {.id = "c", .name = "c", .addresses = {"10.0.0.3"}}},
          0};
}

PeerError reason_for(const std::exception& error, const Witness& witness = {}) {
  return reason_of(error, three_hosts(), witness);
}

std::string reason(const std::string& words, const std::vector<std::string>& silent = {}) {
  return reason_for(gloo::IoException(words), {.silent = silent}).what();
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

TEST(FailureReason, LateHostsAreNamedAndNotTakenForDeadOnes) {
  const gloo::IoException error("Timed out waiting 300ms for recv operation to complete");
  const auto late = reason_for(error, {.late = {2}});
  EXPECT_THAT(late.what(), StartsWith("host 'c' (10.0.0.3; rank 2) has not arrived in time"));
  EXPECT_EQ(late.cause(), PeerError::Cause::kLate);
  EXPECT_THAT(reason_for(error, {.late = {1, 2}}).what(),
              StartsWith("host 'b' (10.0.0.2; rank 1), host 'c' (10.0.0.3; rank 2) have not"));
  EXPECT_THAT(reason_for(error).what(), StartsWith("all hosts have begun it, but are not done"));
}

TEST(FailureReason, WhereNothingTellsWhichHostItWasAllThatItMayBeAreNamed) {
  EXPECT_THAT(reason("Connection closed by peer"),
              StartsWith("host 'b' (10.0.0.2; rank 1) or host 'c' (10.0.0.3; rank 2) broke its"));
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
  EXPECT_THAT(reason_for(late, {.late = {2}}).what(),
              StartsWith("host 'c' (10.0.0.3; rank 2) has not arrived in time (rank 0 saw: rank 1"))
      << "which waits for that itself";
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

TEST(SharedReason, TheFirstIsEverybodys) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  SharedReason of_one(store);
  SharedReason of_another(store);
  EXPECT_FALSE(of_one.is_given());
  EXPECT_FALSE(of_one.is_given()) << "asked again";
  const PeerError mine("the first", PeerError::Cause::kLate);
  EXPECT_STREQ(of_one.first(mine).what(), "the first");
  const PeerError first = of_another.first(PeerError("the second"));
  EXPECT_STREQ(first.what(), "the first");
  EXPECT_EQ(first.cause(), PeerError::Cause::kLate);
  EXPECT_TRUE(of_another.is_given());
}

// Answers when it is let go.
class StoppedStore : public c10d::HashStore {
 public:
  explicit StoppedStore(std::shared_future<void> go) : go_(std::move(go)) {}
  bool check(const std::vector<std::string>& keys) override {
    ++checks_;
    go_.wait();
    return HashStore::check(keys);
  }
  [[nodiscard]] int checks() const { return checks_; }

 private:
  std::shared_future<void> go_;
  std::atomic<int> checks_{0};
};

TEST(SharedReason, AStoreThatOwesAnAnswerIsNotAskedAgain) {
  std::promise<void> go;
  const auto store = c10::make_intrusive<StoppedStore>(go.get_future().share());
  SharedReason reason(store);
  EXPECT_FALSE(reason.is_given());
  EXPECT_FALSE(reason.is_given());
  EXPECT_EQ(store->checks(), 1);
  EXPECT_STREQ(reason.first(PeerError("mine")).what(), "mine") << "without the store";
  go.set_value();
  // What was asked meanwhile is asked now; then it answers as ever.
  const auto deadline = soon();
  while (!reason.is_given() && !deadline.passed()) {
  }
  EXPECT_TRUE(reason.is_given());
}

TEST(SharedReason, ItsEndWaitsForNoStoreThatDoesNotAnswer) {
  std::promise<void> go;
  auto store = c10::make_intrusive<StoppedStore>(go.get_future().share());
  const c10::weak_intrusive_ptr<StoppedStore> seen(store);
  {
    SharedReason reason(std::move(store));
    EXPECT_FALSE(reason.is_given());
  }
  EXPECT_FALSE(seen.expired()) << "the thread that sits in it needs it";
  go.set_value();
  const auto deadline = soon();
  while (!seen.expired() && !deadline.passed()) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(seen.expired()) << "the thread has ended";
}

TEST(SharedReason, ItsEndJoinsItsThread) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  const c10::weak_intrusive_ptr<c10d::HashStore> seen(store);
  {
    SharedReason reason(std::move(store));
    EXPECT_FALSE(reason.is_given());
  }
  EXPECT_TRUE(seen.expired()) << "nobody holds it any more, at once";
}

}  // namespace
}  // namespace lockstep::comm
