#include "lockstep/net/mailbox.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <future>
#include <thread>

#include "lockstep/base/fd.h"
#include "tests/net/mailboxes.h"

namespace lockstep::net {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Mailbox, OnlyRanksThatSpeakAreConnected) {
  Mailboxes group(4);
  Receive receive(group[1], 0, 0);
  send(group[0], 1, 0, {3});
  EXPECT_EQ(receive.wait(), Ints{3});
  EXPECT_EQ(group[2].connections() + group[3].connections(), 0U);
  EXPECT_EQ(group[1].connections(), 1U) << "also of two that connect at once";
}

TEST(Mailbox, MayBeEndedByWhomItTells) {
  Mailboxes group(2);
  Receive first(group[0], 1, 1);
  Receive never(group[0], 1, 2);
  std::promise<void> told;
  std::promise<void> failed;
  group[0].when_done(never.message, soon(), [&] { failed.set_value(); });
  group[0].when_done(first.message, soon(), [&] {
    group.boxes[0].reset();
    told.set_value();
  });
  send(group[1], 0, 1, {1});
  EXPECT_EQ(told.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(failed.get_future().wait_for(std::chrono::seconds(0)), std::future_status::ready);
}

TEST(Mailbox, WhomItTellsMayWaitForAnother) {
  Mailboxes group(2);
  Receive first(group[0], 1, 1);
  std::promise<Ints> got;
  group[0].when_done(first.message, soon(), [&] { got.set_value(Receive(group[0], 1, 2).wait()); });
  send(group[1], 0, 1, {1});
  ASSERT_TRUE(group[0].wait_until(*first.message, soon()));
  send(group[1], 0, 2, {2});
  EXPECT_EQ(got.get_future().get(), Ints{2});
}

// As a collective would: it needs messages of its own while the callback runs.
TEST(Mailbox, ACallbackThatWaitsKeepsNobodyElseWaiting) {
  Mailboxes group(2);
  Receive first(group[0], 1, 1);
  std::promise<void> waits;
  std::promise<Ints> got;
  group[0].when_done(first.message, soon(), [&] {
    waits.set_value();
    got.set_value(Receive(group[0], 1, 3).wait());
  });
  send(group[1], 0, 1, {1});
  waits.get_future().wait();
  Receive second(group[0], 1, 2);  // In another thread, meanwhile.
  send(group[1], 0, 2, {2});
  EXPECT_EQ(second.wait(), Ints{2});
  send(group[1], 0, 3, {3});
  auto result = got.get_future();
  ASSERT_EQ(result.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(result.get(), Ints{3});
}

TEST(Mailbox, ACallbackThatThrowsHarmsNobody) {
  Mailboxes group(2);
  Receive first(group[0], 1, 1);
  group[0].when_done(first.message, soon(), [] { throw std::runtime_error("the user's own"); });
  send(group[1], 0, 1, {1});
  EXPECT_EQ(first.wait(), Ints{1});
  send(group[1], 0, 2, {2});
  EXPECT_EQ(Receive(group[0], 1, 2).wait(), Ints{2});
}

// Also one that does nothing, or is in a callback.
TEST(Mailbox, ARankIsToldHowFarAnotherIs) {
  std::promise<void> go_on;  // Outlives the thread of callbacks.
  const auto gone_on = go_on.get_future();
  Mailboxes group(3);
  const auto answer_of = [&](int peer) {
    const auto question = group[0].ask(peer);
    EXPECT_TRUE(group[0].wait_until(*question, soon()));
    EXPECT_FALSE(question->error());
    return question->answer();
  };
  EXPECT_EQ(answer_of(1), 0U);
  group[1].set_progress(7);
  group[2].set_progress(9);
  EXPECT_EQ(answer_of(1), 7U);
  EXPECT_EQ(answer_of(2), 9U);
  Receive receive(group[1], 0, 1);
  group[1].when_done(receive.message, soon(), [&] { gone_on.wait(); });
  send(group[0], 1, 1, {1});
  EXPECT_EQ(receive.wait(), Ints{1});
  EXPECT_EQ(answer_of(1), 7U);
  go_on.set_value();
}

TEST(Mailbox, AQuestionToARankThatLeavesOrEndsFails) {
  Mailboxes group(3);
  group[1].close("it has enough", Close::kPolitely);
  const auto to_one_that_left = group[0].ask(1);
  group.boxes[2].reset();
  const auto to_one_that_ended = group[0].ask(2);
  for (const auto& question : {to_one_that_left, to_one_that_ended}) {
    ASSERT_TRUE(group[0].wait_until(*question, soon()));
    EXPECT_THROW(std::rethrow_exception(question->error()), RankGone);
  }
  Mailboxes others(2);
  const auto unanswered = others[0].ask(1);
  others[0].close("by this rank", Close::kAtOnce);
  EXPECT_TRUE(unanswered->is_done());
}

// It has the sockets, and none of the threads.
TEST(Mailbox, AForkIsNoMember) {
  Mailboxes group(2);
  Receive receive(group[0], 1, 1);
  // The sanitizers' allocator does not survive a fork while another thread allocates: the threads
  // have come to rest then.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int refused = 0;
    for (const auto& call : std::vector<std::function<void()>>{
             [&] { send(group[0], 1, 1, {1}); }, [&] { Receive(group[1], 0, 1); },
             [&] { group[0].wait_until(*receive.message, soon()); },
             [&] { group[0].when_done(receive.message, soon(), [] {}); }, [&] { group[0].ask(1); },
             [&] { group[0].set_progress(1); },
             [&] { group[0].close("by a fork", Close::kAtOnce); }}) {
      try {
        call();
      } catch (const UsageError&) {
        ++refused;
      }
    }
    group.boxes.clear();
    ::_exit(refused == 7 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  send(group[1], 0, 1, {6});
  EXPECT_EQ(receive.wait(), Ints{6});
}

TEST(Mailbox, WhoConnectsWaitsWhereThereAreNoMoreDescriptors) {
  Mailbox here(0, "127.0.0.1");
  Mailbox there(1, "127.0.0.1");
  there.open({here.own_address(), there.own_address()});
  const auto sent = send(there, 0, 7, {4});
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // It connects; nobody accepts it.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = UniqueFd(::dup(STDERR_FILENO)).get();
  ASSERT_GE(lowest_free, 0);
  // One is left, for the eventfd of open().
  const rlimit no_more{static_cast<rlim_t>(lowest_free) + 1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &no_more), 0);
  here.open({here.own_address(), there.own_address()});
  const std::clock_t begin = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const std::clock_t used = std::clock() - begin;  // By all threads.
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LT(used, CLOCKS_PER_SEC / 10) << "it tries all the time";
  const auto deadline = soon();
  while (here.connections() == 0 && !deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(here.connections(), 1U);
  EXPECT_EQ(Receive(here, 1, 7).wait(), Ints{4});
}

}  // namespace
}  // namespace lockstep::net
