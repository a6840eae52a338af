#include "lockstep/shm/collectives/receive_thread.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <future>
#include <optional>

#include "lockstep/base/error.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using testing::on_processes;
using testing::on_threads;
using testing::soon;

constexpr std::chrono::seconds kSoon{30};

struct Receive {
  explicit Receive(Mailbox& mailbox, int source, std::uint64_t tag)
      : receipt(mailbox.post({.source = source,
                              .tag = tag,
                              .data = reinterpret_cast<std::byte*>(&value),
                              .bytes = sizeof value})) {}
  [[nodiscard]] std::function<void()> tell() {
    return [this] { told.set_value(); };
  }
  bool wait() { return told.get_future().wait_for(kSoon) == std::future_status::ready; }

  int value = 0;
  std::shared_ptr<Receipt> receipt;
  std::promise<void> told;
};

void send_value(Mailbox& mailbox, int to, std::uint64_t tag, int value) {
  mailbox.send(to, tag, reinterpret_cast<const std::byte*>(&value), sizeof value);
}

TEST(ReceiveThread, TellsOfEachAsItComesWhateverCameBefore) {
  on_threads(2, [](Team& team) {
    Mailbox mailbox(team);
    ReceiveThread thread(team, mailbox);
    if (team.rank() == 0) {
      Receive first(mailbox, 1, 1);
      Receive second(mailbox, 1, 2);
      thread.when_done(first.receipt, soon(), first.tell());
      thread.when_done(second.receipt, soon(), second.tell());
      barrier(team, soon());
      EXPECT_TRUE(second.wait());  // The first is sent after this.
      EXPECT_EQ(second.value, 22);
      barrier(team, soon());
      EXPECT_TRUE(first.wait());
      EXPECT_EQ(first.value, 11);
    } else {
      barrier(team, soon());
      send_value(mailbox, 0, 2, 22);
      barrier(team, soon());
      send_value(mailbox, 0, 1, 11);
    }
    barrier(team, soon());
    team.watch().leave();
  });
}

TEST(ReceiveThread, TellsAtTheDeadlineThatNothingCame) {
  on_threads(2, [](Team& team) {
    Mailbox mailbox(team);
    ReceiveThread thread(team, mailbox);
    if (team.rank() == 0) {
      Receive receive(mailbox, 1, 1);
      thread.when_done(receive.receipt, Deadline::in(std::chrono::milliseconds(10)),
                       receive.tell());
      EXPECT_TRUE(receive.wait());
      EXPECT_NE(receive.receipt->failure, nullptr);
    }
    barrier(team, soon());
    team.watch().leave();
  });
}

TEST(ReceiveThread, TellsThatTheSourceHasEnded) {
  on_processes(2, [](Team& team) {
    Mailbox mailbox(team);
    ReceiveThread thread(team, mailbox);
    barrier(team, soon());
    if (team.rank() == 0) {
      Receive receive(mailbox, 1, 1);
      thread.when_done(receive.receipt, soon(), receive.tell());
      EXPECT_TRUE(receive.wait());
      EXPECT_NE(receive.receipt->failure, nullptr);
    } else {
      ::_exit(0);
    }
    team.watch().leave();
  });
}

TEST(ReceiveThread, ItsEndIsAFailureOfWhatIsNotDone) {
  on_threads(2, [](Team& team) {
    Mailbox mailbox(team);
    std::optional<ReceiveThread> thread(std::in_place, team, mailbox);
    Receive receive(mailbox, 1 - team.rank(), 1);
    thread->when_done(receive.receipt, soon(), receive.tell());
    barrier(team, soon());
    team.watch().leave();
    thread.reset();
    EXPECT_EQ(receive.told.get_future().wait_for(std::chrono::seconds(0)),
              std::future_status::ready);
    EXPECT_NE(receive.receipt->failure, nullptr);
  });
}

TEST(ReceiveThread, MayBeEndedByWhomItTells) {
  on_threads(2, [](Team& team) {
    Mailbox mailbox(team);
    auto thread = std::make_unique<ReceiveThread>(team, mailbox);
    const int other = 1 - team.rank();
    Receive first(mailbox, other, 1);
    Receive never(mailbox, other, 2);
    thread->when_done(never.receipt, soon(), never.tell());
    barrier(team, soon());
    thread->when_done(first.receipt, soon(), [&] {
      barrier(team, soon());
      team.watch().leave();
      thread.reset();
      first.told.set_value();
    });
    send_value(mailbox, other, 1, 5);
    EXPECT_TRUE(first.wait());
    EXPECT_TRUE(never.wait());
  });
}

}  // namespace
}  // namespace lockstep::shm
