#include "lockstep/net/link.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <optional>
#include <vector>

namespace lockstep::net {
namespace {

using Kind = Frame::Kind;

void connect(Link& link) {
  pollfd ready{link.fd(), POLLOUT, 0};
  while (link.is_connecting()) {
    ASSERT_EQ(::poll(&ready, 1, 30000), 1);
    link.finish_connecting();
  }
}

struct Pair {
  Pair() : listener(listen_on({"127.0.0.1", 0})), here(Endpoint{"127.0.0.1", listener.port}) {
    there.emplace(accept_on(listener).fd);
    connect(here);
  }
  Listener listener;
  Link here;
  std::optional<Link> there;
};

struct Reader {
  std::vector<std::byte> bytes;
  std::vector<Kind> kinds;
  Link::Receiver receiver{.begin =
                              [this](const Frame& frame) {
                                bytes.resize(std::max<std::size_t>(bytes.size(), frame.bytes));
                                return bytes.data();
                              },
                          .end =
                              [this](const Frame& frame) {
                                kinds.push_back(frame.kind);
                                return true;
                              }};
};

std::vector<std::byte> pattern(std::size_t count) {
  std::vector<std::byte> payload(count);
  for (std::size_t i = 0; i < payload.size(); ++i) {
    payload[i] = static_cast<std::byte>(i % 251);
  }
  return payload;
}

TEST(Link, CarriesFramesAndPayloadsThatDoNotFitIntoTheKernelAtOnce) {
  Pair pair;
  const auto payload = pattern(std::size_t{32} << 20);
  bool sent = false;
  pair.here.push({.kind = Kind::kPayload, .bytes = payload.size(), .id = 3}, payload,
                 [&] { sent = true; });
  pair.here.push({.kind = Kind::kBye});
  Reader reader;
  for (int i = 0; i < 100; ++i) {
    pair.here.write();
  }
  EXPECT_FALSE(sent) << "nobody has read it";
  while (reader.kinds.size() < 2) {
    pair.here.write();
    pair.there->read(reader.receiver);
  }
  EXPECT_TRUE(sent);
  EXPECT_EQ(reader.bytes, payload);
  EXPECT_THAT(reader.kinds, ::testing::ElementsAre(Kind::kPayload, Kind::kBye));
}

// Else a rank that sends all the time would keep the others from being read.
TEST(Link, ReadsAndWritesABoundedNumberOfBytesInATurn) {
  Pair pair;
  const int large = 16 << 20;
  ASSERT_EQ(::setsockopt(pair.here.fd(), SOL_SOCKET, SO_SNDBUF, &large, sizeof large), 0);
  const auto payload = pattern(std::size_t{8} << 20);
  for (int i = 0; i < 4; ++i) {
    pair.here.push({.kind = Kind::kPayload, .bytes = payload.size()}, payload);
  }
  pair.here.write();
  EXPECT_LE(pair.here.bytes_sent(), Link::kTurnBytes + sizeof(Frame));
  for (int i = 0; i < 50; ++i) {
    pair.here.write();
  }
  Reader reader;
  std::size_t small = 0;
  Pair other;
  for (int i = 0; i < 100000; ++i) {
    other.here.push({.kind = Kind::kOffer});
  }
  for (int i = 0; i < 50; ++i) {
    other.here.write();
  }
  other.there->read({.begin = [](const Frame&) { return nullptr; },
                     .end =
                         [&](const Frame&) {
                           ++small;
                           return true;
                         }});
  EXPECT_LE(small, Link::kTurnBytes / sizeof(Frame));
  EXPECT_GT(small, 0U);
}

// Else one whose bytes go out slowly would seem to stand still when this kernel has all of them.
TEST(Link, BytesThatTheOtherKernelTakesAreProgress) {
  Pair pair;
  const auto payload = pattern(std::size_t{64} << 20);
  pair.here.push({.kind = Kind::kPayload, .bytes = payload.size()}, payload);
  for (int i = 0; i < 200; ++i) {
    pair.here.write();
  }
  const auto before = pair.here.bytes_sent();
  Reader reader;
  const auto deadline = Deadline::in(std::chrono::seconds(30));
  while (pair.here.bytes_sent() == before && !deadline.passed()) {
    pair.there->read(reader.receiver);  // And nothing is written.
  }
  EXPECT_GT(pair.here.bytes_sent(), before);
}

// To one that reads nothing at the time.
TEST(Link, TheLastWordsFindRoomInTheKernel) {
  Pair pair;
  const auto payload = pattern(std::size_t{64} << 20);
  for (std::size_t i = 0; i + 16384 <= payload.size(); i += 16384) {
    pair.here.push({.kind = Kind::kMessage, .bytes = 16384}, std::span(payload).subspan(i, 16384));
  }
  for (int i = 0; i < 200; ++i) {
    pair.here.write();
  }
  EXPECT_FALSE(pair.here.take_back([](const Frame&) { return true; }).empty());
  bool sent = false;
  pair.here.push({.kind = Kind::kBye}, {}, [&] { sent = true; });
  pair.here.write();
  EXPECT_FALSE(sent) << "it is full";
  pair.here.end_sending();
  pair.here.write();
  EXPECT_TRUE(sent);
  pair.here.close("");
  Reader reader;
  while (pair.there->is_open()) {
    pair.there->read(reader.receiver);
  }
  EXPECT_EQ(reader.kinds.back(), Kind::kBye);
}

TEST(Link, SaysWhyItIsNotOpenAnyMore) {
  Pair pair;
  pair.there.reset();
  Reader reader;
  while (pair.here.is_open()) {
    pair.here.write();
    pair.here.read(reader.receiver);
  }
  EXPECT_EQ(pair.here.why(), "it ended the connection");
}

TEST(Link, WhatWasSentBeforeTheEndIsReadAlthoughNothingCanBeSent) {
  Pair pair;
  const auto payload = pattern(100000);
  pair.there->push({.kind = Kind::kPayload, .bytes = payload.size()}, payload);
  pair.there->push({.kind = Kind::kBye});
  pair.there->write();
  pair.here.push({.kind = Kind::kOffer});
  pair.here.write();
  pair.there.reset();  // With something unread: a reset follows.
  for (int i = 0; i < 20; ++i) {
    pair.here.push({.kind = Kind::kOffer});
    pair.here.write();
  }
  Reader reader;
  while (pair.here.is_open()) {
    pair.here.read(reader.receiver);
  }
  EXPECT_THAT(reader.kinds, ::testing::ElementsAre(Kind::kPayload, Kind::kBye));
  EXPECT_EQ(reader.bytes, payload);
}

TEST(Link, NobodyListens) {
  int port = 0;
  {
    const auto listener = listen_on({"127.0.0.1", 0});
    port = listener.port;
  }
  Link link(Endpoint{"127.0.0.1", port});
  connect(link);
  EXPECT_TRUE(link.was_refused());
  EXPECT_THAT(link.why(), ::testing::HasSubstr("refused"));
}

// Loopback may give a socket the port that it connects to.
TEST(Link, OneThatIsConnectedToItselfIsNone) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  socklen_t size = sizeof address;
  ASSERT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  Link link(UniqueFd(::dup(socket.get())));
  link.finish_connecting();
  EXPECT_TRUE(link.was_refused());
  EXPECT_FALSE(link.is_open());
}

TEST(Link, AsksEverySecondWhetherItsPeerIsThere) {
  Pair pair;
  for (const Link* link : {&pair.here, &*pair.there}) {
    int value = 0;
    socklen_t size = sizeof value;
    ASSERT_EQ(::getsockopt(link->fd(), SOL_SOCKET, SO_KEEPALIVE, &value, &size), 0);
    EXPECT_EQ(value, 1);
    ASSERT_EQ(::getsockopt(link->fd(), IPPROTO_TCP, TCP_KEEPIDLE, &value, &size), 0);
    EXPECT_EQ(value, 1);
  }
  pair.here.close_if_silent();
  EXPECT_TRUE(pair.here.is_open());
}

TEST(Link, BytesThatAreNoneOfOursEndIt) {
  Pair pair;
  const std::vector<std::byte> noise(64, std::byte{'G'});
  ASSERT_EQ(::send(pair.there->fd(), noise.data(), noise.size(), 0), 64);
  Reader reader;
  while (pair.here.is_open()) {
    pair.here.read(reader.receiver);
  }
  EXPECT_THAT(pair.here.why(), ::testing::HasSubstr("none of ours"));
}

}  // namespace
}  // namespace lockstep::net
