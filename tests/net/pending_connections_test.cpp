#include "lockstep/net/pending_connections.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "lockstep/base/fd.h"

namespace lockstep::net {
namespace {

struct OpenPort {
  OpenPort()
      : listener(listen_on({"127.0.0.1", 0})), port(listener.port), pending(std::move(listener)) {}
  std::vector<PendingConnections::Greeted> turn() {
    std::vector<pollfd> ready;
    pending.add_to(ready);
    ::poll(ready.data(), ready.size(), std::min(pending.patience(), 10));
    return pending.look(ready);
  }
  UniqueFd connect() const {
    return connect_to({"127.0.0.1", port}, Deadline::in(std::chrono::seconds(30)));
  }
  Listener listener;
  int port;
  PendingConnections pending;
};

bool was_sent_away(const UniqueFd& fd) {
  char byte = 0;
  return ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0 || errno != EAGAIN;
}

TEST(PendingConnections, WhoeverGreetsComesIn) {
  OpenPort port;
  const auto connected = port.connect();
  const Frame hello{.kind = Frame::Kind::kHello, .tag = 7, .id = 1};
  ASSERT_EQ(::send(connected.get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  std::vector<PendingConnections::Greeted> greeted;
  while (greeted.empty()) {
    greeted = port.turn();
  }
  EXPECT_EQ(greeted[0].hello.tag, 7U);
  EXPECT_TRUE(greeted[0].link->is_open());
  EXPECT_EQ(port.pending.size(), 0U);
}

TEST(PendingConnections, WhoeverSaysNothingIsSentAwayAfterAWhile) {
  OpenPort port;
  const auto connected = port.connect();
  while (port.pending.size() == 0) {
    port.turn();
  }
  const auto begin = std::chrono::steady_clock::now();
  while (port.pending.size() != 0) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, 3 * PendingConnections::kGreetWithin);
    EXPECT_TRUE(port.turn().empty());
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, PendingConnections::kGreetWithin / 2);
  EXPECT_TRUE(was_sent_away(connected));
}

// As after a SIGSTOP between poll() and the look at what it said.
TEST(PendingConnections, WhoeverGreetedInTimeComesInAlthoughNobodyLooked) {
  OpenPort port;
  const auto connected = port.connect();
  while (port.pending.size() == 0) {
    port.turn();
  }
  std::vector<pollfd> ready;
  port.pending.add_to(ready);
  ASSERT_EQ(::poll(ready.data(), ready.size(), 0), 0);
  const Frame hello{.kind = Frame::Kind::kHello, .tag = 7, .id = 1};
  ASSERT_EQ(::send(connected.get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  std::this_thread::sleep_for(PendingConnections::kGreetWithin);
  EXPECT_EQ(port.pending.look(ready).size(), 1U);
}

TEST(PendingConnections, WhoeverSaysSomethingElseIsSentAway) {
  for (const Frame& frame :
       {Frame{.kind = Frame::Kind::kMessage, .bytes = std::uint64_t{1} << 60},
        Frame{.kind = Frame::Kind::kWelcome}, Frame{.magic = 1, .kind = Frame::Kind::kHello}}) {
    OpenPort port;
    const auto connected = port.connect();
    ASSERT_EQ(::send(connected.get(), &frame, sizeof frame, 0), static_cast<ssize_t>(sizeof frame));
    while (port.pending.size() == 0) {
      EXPECT_TRUE(port.turn().empty());
    }
    const auto deadline = Deadline::in(PendingConnections::kGreetWithin / 2);
    while (port.pending.size() != 0 && !deadline.passed()) {
      EXPECT_TRUE(port.turn().empty());
    }
    EXPECT_EQ(port.pending.size(), 0U);
  }
}

// Else whoever connects would wait for a greeting until the fork ends.
TEST(PendingConnections, IsClosedAlthoughAForkHasItsSocket) {
  OpenPort port;
  Pipe end = make_pipe();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(end.write_end.get());
    char byte = 0;
    (void)!::read(end.read_end.get(), &byte, 1);  // Until the parent closes the pipe.
    ::_exit(0);
  }
  port.pending.close();
  Link link(Endpoint{"127.0.0.1", port.port});
  pollfd ready{link.fd(), POLLOUT, 0};
  EXPECT_EQ(::poll(&ready, 1, 30000), 1);
  link.finish_connecting();
  EXPECT_TRUE(link.was_refused());
  end.write_end.reset();
  ::waitpid(child, nullptr, 0);
}

TEST(PendingConnections, ARankComesInAlthoughStrangersTakeAllPlaces) {
  OpenPort port;
  std::vector<UniqueFd> strangers;
  for (std::size_t i = 0; i < PendingConnections::kMostPending + 20; ++i) {
    strangers.push_back(port.connect());
  }
  const auto rank = port.connect();
  const Frame hello{.kind = Frame::Kind::kHello, .tag = 7, .id = 1};
  ASSERT_EQ(::send(rank.get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  std::vector<PendingConnections::Greeted> greeted;
  for (int i = 0; i < 20 && greeted.empty(); ++i) {
    greeted = port.turn();
  }
  ASSERT_EQ(greeted.size(), 1U);
  EXPECT_TRUE(greeted[0].link->is_open());
  EXPECT_TRUE(was_sent_away(strangers.front()));
  EXPECT_FALSE(was_sent_away(strangers.back()));
}

TEST(PendingConnections, OnlySoManyAreLetInAtATime) {
  OpenPort port;
  std::vector<UniqueFd> connected;
  for (std::size_t i = 0; i < PendingConnections::kMostPending + 20; ++i) {
    connected.push_back(port.connect());
  }
  for (int i = 0; i < 50; ++i) {
    std::vector<pollfd> ready;
    port.pending.add_to(ready);
    ::poll(ready.data(), ready.size(), 0);
    port.pending.look(ready);
    EXPECT_LE(port.pending.size(), static_cast<std::size_t>(16 * (i + 1)));
    EXPECT_LE(port.pending.size(), PendingConnections::kMostPending);
  }
  EXPECT_EQ(port.pending.size(), PendingConnections::kMostPending);
  port.pending.close();
  EXPECT_EQ(port.pending.size(), 0U);
}

}  // namespace
}  // namespace lockstep::net
