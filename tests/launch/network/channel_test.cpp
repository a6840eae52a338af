#include "lockstep/launch/network/channel.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/socket.h"

namespace lockstep::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

struct Ends {
  UniqueFd a;
  UniqueFd b;
};

Ends socket_pair() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

TEST(Channel, CarriesMessagesBothWays) {
  Ends ends = socket_pair();
  Channel a(std::move(ends.a));
  Channel b(std::move(ends.b));
  a.send(Done{4});
  a.send(Heartbeat{});
  a.send(Stop{1, 15});
  const auto received = b.receive();
  ASSERT_THAT(received, SizeIs(2)) << "heartbeats are the channel's own affair";
  EXPECT_EQ(std::get<Done>(received[0]).attempt, 4);
  EXPECT_TRUE(b.greeted());
  EXPECT_THAT(a.receive(), SizeIs(0));
  EXPECT_THAT(a.receive(), SizeIs(0)) << "an empty socket is not the end";
}

TEST(Channel, TheEndOfTheStreamIsAnError) {
  Ends ends = socket_pair();
  Channel a(std::move(ends.a));
  char block[64];
  EXPECT_GT(::read(ends.b.get(), block, sizeof block), 0);  // Unread bytes would make it a reset.
  ends.b.reset();
  EXPECT_THAT([&] { a.receive(); }, ThrowsMessage<PeerError>(HasSubstr("closed the connection")));
}

TEST(Channel, ForeignBytesAreAnError) {
  Ends ends = socket_pair();
  Channel a(std::move(ends.a));
  write_all(ends.b.get(), "HTTP/1.0");
  EXPECT_THAT([&] { a.receive(); },
              ThrowsMessage<ProtocolError>(HasSubstr("not a lockstep launcher")));
}

TEST(Channel, SilenceIsAnError) {
  Ends ends = socket_pair();
  const Channel a(std::move(ends.a));
  EXPECT_THAT([&] { a.check(std::chrono::milliseconds(0)); },
              ThrowsMessage<PeerError>(HasSubstr("no sign of life for 0 ms")));
  a.check(std::chrono::hours(1));
}

TEST(Channel, WhatWasNotReadYetIsASignOfLife) {
  Ends ends = socket_pair();
  const Channel a(std::move(ends.a));
  write_all(ends.b.get(), "x");
  EXPECT_TRUE(a.unread());
  a.check(std::chrono::milliseconds(0));
}

TEST(Channel, APeerThatReadsNothingIsAnErrorInTheEnd) {
  Ends ends = socket_pair();
  Channel a(std::move(ends.a));
  for (int i = 0; i < 100; ++i) {
    a.send(End{1, std::string(16000, 'x')});
  }
  EXPECT_THAT([&] { a.check(std::chrono::hours(1)); },
              ThrowsMessage<PeerError>(HasSubstr("does not read what it is sent")));
}

// Sends until the other side closes and returns the exit code that it was told; -1: nothing.
int chatter(UniqueFd socket) {
  Channel channel(std::move(socket));
  std::vector<Message> all;
  const Deadline deadline = Deadline::in(std::chrono::seconds(60));
  try {
    while (!deadline.passed()) {
      channel.send(Heartbeat{});
      pollfd waiting{channel.fd(), POLLIN, 0};
      ::poll(&waiting, 1, 10);  // It talks, but does not flood.
      for (auto& message : channel.receive()) {
        all.push_back(message);
      }
    }
  } catch (const PeerError&) {
  }
  const End* end = all.empty() ? nullptr : std::get_if<End>(&all.back());
  return end == nullptr ? -1 : end->exit_code;
}

TEST(Channel, CloseLetsTheLastWordArrive) {
  // Over TCP: there a socket that is closed with unread bytes destroys what it has sent.
  const Listener listener = listen_on({"127.0.0.1", 0});
  UniqueFd there = connect_to({"127.0.0.1", listener.port}, Deadline::in(std::chrono::seconds(5)));
  UniqueFd here = accept_on(listener).fd;
  const int small = 4096;
  ::setsockopt(here.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  const int window = 65536;
  ::setsockopt(there.get(), SOL_SOCKET, SO_RCVBUF, &window, sizeof window);
  Channel a(std::move(here));
  // More than the sockets take while nobody reads, so that the last word waits here.
  for (int i = 0; i < 100; ++i) {
    a.send(End{1, std::string(16000, 'x')});
  }
  a.send(End{7, ""});
  ASSERT_TRUE(a.pending());
  std::atomic<int> told{-2};
  std::thread peer([&] { told = chatter(std::move(there)); });
  const Deadline deadline = Deadline::in(std::chrono::seconds(60));
  a.close(deadline);
  EXPECT_FALSE(deadline.passed()) << "the other side learns that nothing more comes";
  peer.join();
  EXPECT_EQ(told, 7);
}

TEST(Channel, CloseDoesNotWaitForEver) {
  Ends ends = socket_pair();
  Channel a(std::move(ends.a));
  const Deadline deadline = Deadline::in(std::chrono::milliseconds(20));
  a.close(deadline);
  EXPECT_TRUE(deadline.passed());
  EXPECT_LT(a.fd(), 0);
}

}  // namespace
}  // namespace lockstep::launch
