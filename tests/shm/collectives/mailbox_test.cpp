#include "lockstep/shm/collectives/mailbox.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <numeric>
#include <thread>

#include "lockstep/base/error.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::input_of;
using testing::on_processes;
using testing::on_threads;
using testing::soon;
using ::testing::ThrowsMessage;
using Ints = std::vector<std::int32_t>;

void send(Mailbox& mailbox, int to, std::uint64_t tag, const Ints& values) {
  mailbox.send(to, tag, input_of(values).data, input_of(values).bytes);
}

Receipt into(Ints& values, int source, std::uint64_t tag) {
  return {.source = source,
          .tag = tag,
          .data = reinterpret_cast<std::byte*>(values.data()),
          .bytes = values.size() * 4};
}

Ints receive(Mailbox& mailbox, int source, std::uint64_t tag, std::size_t count = 1) {
  Ints values(count);
  mailbox.wait(*mailbox.post(into(values, source, tag)), soon());
  return values;
}

TEST(Mailbox, BothMaySendFirst) {
  on_processes(2, [](Team& team) {
    Mailbox mailbox(team);
    const int other = 1 - team.rank();
    Ints large(100000);
    std::iota(large.begin(), large.end(), team.rank());
    send(mailbox, other, 0, large);
    EXPECT_EQ(receive(mailbox, other, 0, large.size())[10], 10 + other);
    barrier(team, soon());
  });
}

TEST(Mailbox, TagsAreKeptApartAndEachIsInOrder) {
  on_threads(2, [](Team& team) {
    Mailbox mailbox(team);
    if (team.rank() == 0) {
      for (const std::int32_t value : {1, 2, 3}) {
        send(mailbox, 1, 5, {value});
        send(mailbox, 1, 6, {value * 10});
      }
    } else {
      for (const std::int32_t value : {1, 2, 3}) {
        EXPECT_EQ(receive(mailbox, 0, 6), Ints{value * 10});
      }
      for (const std::int32_t value : {1, 2, 3}) {
        EXPECT_EQ(receive(mailbox, 0, 5), Ints{value});
      }
    }
    barrier(team, soon());
  });
}

TEST(Mailbox, ReceivesAreServedInTheOrderInWhichTheyWerePosted) {
  on_threads(2, [](Team& team) {
    Mailbox mailbox(team);
    if (team.rank() == 0) {
      Ints first(1);
      Ints second(1);
      const auto one = mailbox.post(into(first, 1, 0));
      const auto two = mailbox.post(into(second, 1, 0));
      mailbox.wait(*two, soon());
      mailbox.wait(*one, soon());
      EXPECT_EQ(first, Ints{1});
      EXPECT_EQ(second, Ints{2});
    } else {
      send(mailbox, 0, 0, {1});
      send(mailbox, 0, 0, {2});
    }
    barrier(team, soon());
  });
}

TEST(Mailbox, EmptyMessagesArriveToo) {
  on_threads(2, [](Team& team) {
    Mailbox mailbox(team);
    if (team.rank() == 0) {
      send(mailbox, 1, 0, {});
    } else {
      EXPECT_EQ(receive(mailbox, 0, 0, 0), Ints{});
    }
    barrier(team, soon());
  });
}

TEST(Mailbox, ReceivesFromAnyoneAndSaysWhoItWas) {
  on_threads(4, [](Team& team) {
    Mailbox mailbox(team);
    if (team.rank() == 0) {
      int sum = 0;
      for (int i = 0; i < 3; ++i) {
        Ints value(1);
        const auto receipt = mailbox.post(into(value, kAnySource, 0));
        mailbox.wait(*receipt, soon());
        EXPECT_EQ(value[0], receipt->from);
        sum += receipt->from;
      }
      EXPECT_EQ(sum, 6);
    } else {
      send(mailbox, 0, 0, {team.rank()});
    }
    barrier(team, soon());
  });
}

TEST(Mailbox, AnyoneIsWhoIsStillThere) {
  on_processes(3, [](Team& team) {
    Mailbox mailbox(team);
    if (team.rank() == 1) {
      team.watch().leave();
    } else if (team.rank() == 2) {
      while (!team.watch().has_left(1)) {
        std::this_thread::yield();
      }
      send(mailbox, 0, 0, {2});
      team.watch().leave();
    } else {
      EXPECT_EQ(receive(mailbox, kAnySource, 0), Ints{2});
      EXPECT_THAT([&] { receive(mailbox, kAnySource, 0); },
                  ThrowsMessage<PeerError>(HasSubstr("left the group")));
    }
  });
}

TEST(Mailbox, AloneNobodySendsUntilTheDeadline) {
  on_threads(1, [](Team& team) {
    Mailbox mailbox(team);
    Ints value(1);
    const auto receipt = mailbox.post(into(value, kAnySource, 0));
    EXPECT_THAT(
        [&] { mailbox.wait(*receipt, Deadline::in(std::chrono::milliseconds(50))); },
        ThrowsMessage<PeerError>(HasSubstr("no other rank is awaited, but this call is not done")));
  });
}

TEST(Mailbox, ManyMessagesWaitForOneThatReceivesLate) {
  on_threads(2, [](Team& team) {
    Mailbox mailbox(team);
    constexpr int kMany = 1000;
    if (team.rank() == 0) {
      for (int i = 0; i < kMany; ++i) {
        send(mailbox, 1, 0, {i});
      }
    }
    barrier(team, soon());
    for (int i = 0; i < kMany && team.rank() == 1; ++i) {
      ASSERT_EQ(receive(mailbox, 0, 0), Ints{i});
    }
    barrier(team, soon());
  });
}

TEST(Mailbox, WhatWasSentArrivesAfterTheSenderHasLeft) {
  on_processes(2, [](Team& team) {
    Mailbox mailbox(team);
    if (team.rank() == 0) {
      for (int i = 0; i < 200; ++i) {
        send(mailbox, 1, 0, {i});
      }
      team.watch().leave();
      return;
    }
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(receive(mailbox, 0, 0), Ints{i});
    }
  });
}

TEST(Mailbox, MemoryOfDeliveredMessagesIsUsedAgain) {
  on_threads(2, [](Team& team) {
    Mailbox mailbox(team);
    const Ints megabyte(1 << 18);
    for (int i = 0; i < 200; ++i) {  // Three times the arena.
      if (team.rank() == 0) {
        send(mailbox, 1, 0, megabyte);
      } else {
        receive(mailbox, 0, 0, megabyte.size());
      }
      barrier(team, soon());
    }
  });
}

TEST(Mailbox, AnotherSizeIsAnErrorThatSaysBoth) {
  on_threads(2, [](Team& team) {
    Mailbox mailbox(team);
    if (team.rank() == 0) {
      send(mailbox, 1, 3, {1, 2});
    } else {
      EXPECT_THAT(
          [&] { receive(mailbox, 0, 3); },
          ThrowsMessage<UsageError>(AllOf(HasSubstr("recv of 4 bytes from rank 0 with tag 3"),
                                          HasSubstr("rank 0 sent 8 bytes"))));
    }
    barrier(team, soon());
  });
}

TEST(Mailbox, ALateSenderIsNamedAndTheTeamStaysUsable) {
  on_threads(2, [](Team& team) {
    Mailbox mailbox(team);
    if (team.rank() == 0) {
      Ints value(1);
      const auto receipt = mailbox.post(into(value, 1, 0));
      EXPECT_THAT(
          [&] { mailbox.wait(*receipt, Deadline::in(std::chrono::milliseconds(100))); },
          ThrowsMessage<PeerError>(AllOf(HasSubstr("rank 1 (pid "), HasSubstr("timed out"))));
    }
    barrier(team, soon());
  });
}

// Rank 0 gives up a receive before anything was sent, and receives again with the same arguments.
void give_up_and_try_again(int source, std::uint64_t given_up_tag) {
  on_threads(2, [&](Team& team) {
    Mailbox mailbox(team);
    if (team.rank() == 0) {
      Ints lost{-1};
      const auto given_up = mailbox.post(into(lost, source, given_up_tag));
      const auto now = Deadline::in(std::chrono::milliseconds(1));
      EXPECT_THROW(mailbox.wait(*given_up, now), PeerError);
      barrier(team, soon());
      EXPECT_EQ(receive(mailbox, source, 0), Ints{7});
      EXPECT_EQ(lost, Ints{-1});
      EXPECT_TRUE(mailbox.is_done(*given_up));
      EXPECT_THROW(mailbox.wait(*given_up, soon()), PeerError);
    } else {
      barrier(team, soon());
      send(mailbox, 0, 0, {7});
    }
    barrier(team, soon());
  });
}

TEST(Mailbox, AReceiveThatTimedOutLeavesTheMessageToTheNext) { give_up_and_try_again(1, 0); }
TEST(Mailbox, AReceiveFromAnyoneThatTimedOutLeavesTheMessageToTheNext) {
  give_up_and_try_again(kAnySource, 0);
}
TEST(Mailbox, AReceiveThatTimedOutDoesNotDisturbOtherTags) { give_up_and_try_again(1, 5); }

TEST(Mailbox, AFromAnyoneThatTimedOutLeavesTheMessageToOneThatNamesTheSource) {
  on_threads(2, [](Team& team) {
    Mailbox mailbox(team);
    if (team.rank() == 0) {
      Ints lost(1);
      const auto given_up = mailbox.post(into(lost, kAnySource, 0));
      EXPECT_THROW(mailbox.wait(*given_up, Deadline::in(std::chrono::milliseconds(1))), PeerError);
      barrier(team, soon());
      EXPECT_EQ(receive(mailbox, 1, 0), Ints{7});
    } else {
      barrier(team, soon());
      send(mailbox, 0, 0, {7});
    }
    barrier(team, soon());
  });
}

// Looks and never waits; true if it ended by itself.
bool poll_until_done(Mailbox& mailbox, const Receipt& receipt) {
  const auto deadline = Deadline::in(std::chrono::seconds(20));
  while (!mailbox.is_done(receipt) && !deadline.passed()) {
    std::this_thread::yield();
  }
  return !deadline.passed();
}

class MailboxPolled : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sources, MailboxPolled, ::testing::Values(1, kAnySource));

TEST_P(MailboxPolled, AReceiveFromADeadSenderEndsWithAnErrorThatNamesIt) {
  on_processes(2,
               [](Team& team) {
                 Mailbox mailbox(team);
                 if (team.rank() == 1) {
                   send(mailbox, 0, 0, {7});
                   ::kill(::getpid(), SIGKILL);
                 }
                 Ints first(1);
                 Ints second(1);
                 const auto one = mailbox.post(into(first, GetParam(), 0));
                 const auto two = mailbox.post(into(second, GetParam(), 0));
                 ASSERT_TRUE(poll_until_done(mailbox, *two));
                 EXPECT_TRUE(mailbox.is_done(*one));
                 EXPECT_EQ(one->failure, nullptr);
                 EXPECT_EQ(first, Ints{7});
                 ASSERT_NE(two->failure, nullptr);
                 EXPECT_THAT([&] { std::rethrow_exception(two->failure); },
                             ThrowsMessage<PeerError>(HasSubstr("rank 1 (pid ")));
               },
               testing::small_options(), {1});
}

TEST(MailboxPolled, AReceiveOfABrokenGroupEnds) {
  on_threads(2, [](Team& team) {
    Mailbox mailbox(team);
    Ints value(1);
    const auto receipt = mailbox.post(into(value, 1 - team.rank(), 0));
    EXPECT_FALSE(mailbox.is_done(*receipt));
    barrier(team, soon());
    if (team.rank() == 1) {
      team.watch().break_up(Watch::Reason::kAborted, "no more");
    }
    ASSERT_TRUE(poll_until_done(mailbox, *receipt));
    EXPECT_THAT([&] { std::rethrow_exception(receipt->failure); },
                ThrowsMessage<PeerError>(HasSubstr("no more")));
  });
}

// True if the call is refused because this process is a fork.
bool is_refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return std::string(error.what()).find("fork") != std::string::npos;
  }
  return false;
}

TEST(MailboxFork, TakesNothingOfItsParents) {
  on_processes(2, [](Team& team) {
    Mailbox mailbox(team);
    if (team.rank() == 1) {
      send(mailbox, 0, 0, {7});
      barrier(team, soon());
      EXPECT_EQ(receive(mailbox, 0, 1), Ints{8});
      return;
    }
    Ints value(1);
    const auto receipt = mailbox.post(into(value, 1, 0));
    barrier(team, soon());
    const pid_t child = ::fork();
    if (child == 0) {
      const Ints word{9};
      const bool refused = is_refused([&] { (void)mailbox.is_done(*receipt); }) &&
                           is_refused([&] { mailbox.wait(*receipt, soon()); }) &&
                           is_refused([&] { send(mailbox, 1, 1, word); }) &&
                           is_refused([&] { (void)mailbox.post(into(value, 1, 0)); });
      ::_exit(refused ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    mailbox.wait(*receipt, soon());
    EXPECT_EQ(value, Ints{7});
    send(mailbox, 1, 1, {8});
  });
}

TEST(Mailbox, ADeadSenderIsNamedAfterItsMessagesWereTaken) {
  on_processes(2,
               [](Team& team) {
                 Mailbox mailbox(team);
                 if (team.rank() == 1) {
                   send(mailbox, 0, 0, {7});
                   ::kill(::getpid(), SIGKILL);
                 }
                 EXPECT_EQ(receive(mailbox, 1, 0), Ints{7});
                 EXPECT_THAT([&] { receive(mailbox, 1, 0); },
                             ThrowsMessage<PeerError>(HasSubstr("rank 1 (pid ")));
               },
               testing::small_options(), {1});
}

}  // namespace
}  // namespace lockstep::shm
