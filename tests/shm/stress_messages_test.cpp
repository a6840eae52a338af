// Many messages between two ranks, one after the other and as fast as they go.
#include <gmock/gmock.h>

#include "lockstep/shm/collectives/mailbox.h"
#include "tests/shm/stress.h"

namespace lockstep::shm {
namespace {

using testing::soon;
using testing::stress_count;
using testing::stress_processes;
using testing::stress_threads;

void send_number(Mailbox& mailbox, std::uint64_t tag, int number) {
  mailbox.send(1, tag, reinterpret_cast<const std::byte*>(&number), sizeof number);
}
int receive_number(Mailbox& mailbox, std::uint64_t tag) {
  int number = -1;
  const auto receipt = mailbox.post({.source = 0,
                                     .tag = tag,
                                     .data = reinterpret_cast<std::byte*>(&number),
                                     .bytes = sizeof number});
  const auto deadline = soon();
  while (!mailbox.is_done(*receipt) && !deadline.passed()) {
  }
  return number;
}

// The receiver looks all the time, and letters are freed and used again while it does; now and then
// it lets some lie, so that they come in another order than they are taken.
void keep_order(Team& team) {
  Mailbox mailbox(team);
  for (int i = 0; i < 10 * stress_count(); i += 10) {
    if (team.rank() == 0) {
      for (int k = 0; k < 10; ++k) {
        send_number(mailbox, static_cast<std::uint64_t>(k % 2), i + k);
      }
      if (i % 1000 == 0) {
        barrier(team, soon());  // Not too far ahead.
      }
      continue;
    }
    if (i % 1000 == 0) {
      barrier(team, soon());
    }
    for (const int tag : {1, 0}) {
      for (int k = tag; k < 10; k += 2) {
        ASSERT_EQ(receive_number(mailbox, static_cast<std::uint64_t>(tag)), i + k);
      }
    }
  }
  barrier(team, soon());
}

TEST(ShmStress, MessagesBetweenThreadsKeepTheirOrder) { stress_threads(2, keep_order); }
TEST(ShmStress, MessagesBetweenProcessesKeepTheirOrder) { stress_processes(2, keep_order); }

// Each message finds a receiver that sleeps, or is about to.
void take_turns(Team& team) {
  Mailbox mailbox(team);
  const int other = 1 - team.rank();
  for (int i = 0; i < stress_count(); ++i) {
    int got = -1;
    const auto receipt = mailbox.post(
        {.source = other, .data = reinterpret_cast<std::byte*>(&got), .bytes = sizeof got});
    if (i % 2 == team.rank()) {
      mailbox.send(other, 0, reinterpret_cast<const std::byte*>(&i), sizeof i);
    }
    mailbox.wait(*receipt, soon());
    ASSERT_EQ(got, i);
    if (i % 2 != team.rank()) {
      mailbox.send(other, 0, reinterpret_cast<const std::byte*>(&i), sizeof i);
    }
  }
  barrier(team, soon());
}

TEST(ShmStress, MessagesWakeTheirReceiverOnThreads) { stress_threads(2, take_turns); }
TEST(ShmStress, MessagesWakeTheirReceiverInProcesses) { stress_processes(2, take_turns); }

}  // namespace
}  // namespace lockstep::shm
