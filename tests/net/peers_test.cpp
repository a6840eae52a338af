#include "lockstep/net/peers.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "lockstep/base/error.h"

namespace lockstep::net {
namespace {

using Kind = Frame::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A rank whose turns the test takes.
struct Rank {
  Rank(int rank, const std::vector<RankAddress>& addresses, Listener listener)
      : peers(rank, addresses, std::move(listener),
              {.begin = [](int, const Frame&) { return nullptr; },
               .end = [this](int peer, const Frame& frame) { got.emplace_back(peer, frame.id); },
               .lost = [this](int peer) { lost.push_back(peer); },
               .wants_to_read = [](int) { return true; }}) {}
  void turn() { peers.turn(-1, Deadline::in(std::chrono::milliseconds(1))); }

  std::vector<std::pair<int, std::uint64_t>> got;
  std::vector<int> lost;
  Peers peers;
};

struct Ranks {
  explicit Ranks(int size) {
    for (int rank = 0; rank < size; ++rank) {
      listeners.push_back(listen_on({"127.0.0.1", 0}));
      addresses.push_back(
          {{"127.0.0.1", listeners.back().port}, 100 + static_cast<unsigned>(rank)});
    }
    for (int rank = 0; rank < size; ++rank) {
      ranks.push_back(std::make_unique<Rank>(rank, addresses,
                                             std::move(listeners[static_cast<std::size_t>(rank)])));
    }
  }
  Rank& operator[](int rank) { return *ranks[static_cast<std::size_t>(rank)]; }
  // Until it is so; false if it takes too long.
  template <class Condition>
  bool turn_until(Condition condition) {
    const auto deadline = Deadline::in(std::chrono::seconds(20));
    while (!condition() && !deadline.passed()) {
      for (auto& rank : ranks) {
        if (rank) {
          rank->turn();
        }
      }
    }
    return condition();
  }
  std::vector<Listener> listeners;
  std::vector<RankAddress> addresses;
  std::vector<std::unique_ptr<Rank>> ranks;
};

Frame offer(std::uint64_t id) { return {.kind = Kind::kOffer, .id = id}; }

TEST(Peers, WhatWasPostedBeforeIsSentWhenThereIsAConnection) {
  Ranks ranks(2);
  ranks[0].peers.post(1, offer(5));
  ranks[0].peers.post(1, offer(6));
  EXPECT_TRUE(ranks.turn_until([&] { return ranks[1].got.size() == 2; }));
  EXPECT_THAT(ranks[1].got, ElementsAre(std::pair(0, 5U), std::pair(0, 6U)));
  EXPECT_EQ(ranks[0].peers.connected(), 1U);
  EXPECT_EQ(ranks[1].peers.connected(), 1U);
}

// In each of the orders in which two greetings can cross.
TEST(Peers, TwoThatConnectAtOnceHaveOneConnection) {
  for (int round = 0; round < 40; ++round) {
    Ranks ranks(2);
    ranks[0].peers.post(1, offer(1));
    ranks[1].peers.post(0, offer(2));
    for (int i = 0; i < round % 4; ++i) {
      ranks[0].turn();
    }
    for (int i = 0; i < round / 4 % 4; ++i) {
      ranks[1].turn();
    }
    ASSERT_TRUE(ranks.turn_until([&] { return ranks[0].got.size() + ranks[1].got.size() == 2; }));
    for (int i = 0; i < 5; ++i) {
      ranks[0].peers.post(1, offer(3));
      ranks[1].peers.post(0, offer(4));
      ranks[0].turn();
      ranks[1].turn();
    }
    ASSERT_TRUE(ranks.turn_until([&] { return ranks[0].got.size() + ranks[1].got.size() == 12; }));
    EXPECT_EQ(ranks[0].got.front().second, 2U);
    EXPECT_EQ(ranks[1].got.front().second, 1U);
    EXPECT_EQ(ranks[0].peers.connected(), 1U);
    EXPECT_EQ(ranks[1].peers.connected(), 1U);
    const int ends = round % 2;  // One ends: the other notices.
    ranks.ranks[static_cast<std::size_t>(ends)].reset();
    EXPECT_TRUE(ranks.turn_until([&] { return !ranks[1 - ends].lost.empty(); })) << round;
    EXPECT_EQ(ranks[1 - ends].peers.why_gone(ends).kind, Failure::Kind::kDied);
  }
}

// Both have connected before either has looked at who knocks.
TEST(Peers, OfTwoConnectionsTheLowerRanksCounts) {
  Ranks ranks(2);
  ASSERT_TRUE(ranks[0].peers.connect(1));
  ASSERT_TRUE(ranks[1].peers.connect(0));
  ASSERT_TRUE(ranks.turn_until(
      [&] { return ranks[0].peers.connected() == 1 && ranks[1].peers.connected() == 1; }));
  for (int i = 0; i < 300; ++i) {  // No try is left that would come later.
    ranks[0].turn();
    ranks[1].turn();
  }
  EXPECT_EQ(ranks[0].peers.connected(), 1U);
  EXPECT_EQ(ranks[1].peers.connected(), 1U);
  EXPECT_THAT(ranks[0].lost, ElementsAre());
  EXPECT_THAT(ranks[1].lost, ElementsAre());
}

TEST(Peers, ARankThatSaysByeHasLeftAndOneThatDoesNotHasDied) {
  for (const bool politely : {true, false}) {
    Ranks ranks(2);
    ranks[0].peers.connect(1);
    ASSERT_TRUE(ranks.turn_until([&] { return ranks[1].peers.connected() == 1; }));
    ranks[1].peers.post(0, offer(9));
    if (politely) {
      ranks[1].peers.leave();
      ranks[1].peers.say_bye(0);
      EXPECT_TRUE(ranks.turn_until([&] { return ranks[1].peers.is_alone(); }))
          << "the other ends the connection";
    } else {
      for (int i = 0; i < 3; ++i) {
        ranks[1].turn();
      }
      ranks.ranks[1].reset();
    }
    ASSERT_TRUE(ranks.turn_until([&] { return !ranks[0].lost.empty(); }));
    EXPECT_THAT(ranks[0].got, ElementsAre(std::pair(1, 9U))) << "what it sent before has come";
    const Failure& gone = ranks[0].peers.why_gone(1);
    EXPECT_EQ(gone.kind, politely ? Failure::Kind::kLeft : Failure::Kind::kDied);
    EXPECT_THAT(gone.words, HasSubstr(politely ? "rank 1 has left" : "rank 1 is gone"));
    EXPECT_FALSE(ranks[0].peers.connect(1));
  }
}

TEST(Peers, WhoeverConnectsWithARankThatLeavesIsTold) {
  Ranks ranks(2);
  ranks[1].peers.leave();
  ranks[0].peers.connect(1);
  ASSERT_TRUE(ranks.turn_until([&] { return !ranks[0].lost.empty(); }));
  EXPECT_EQ(ranks[0].peers.why_gone(1).words, "rank 1 has left the group");
}

UniqueFd bound_to(int port) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return socket;
}

TEST(Peers, NobodyListens) {
  Ranks ranks(2);
  ranks.ranks[1].reset();
  const auto taken = bound_to(ranks.addresses[1].endpoint.port);  // Nobody else is to listen there.
  ranks[0].peers.connect(1);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(ranks.turn_until([&] { return !ranks[0].lost.empty(); }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  EXPECT_EQ(ranks[0].peers.why_gone(1).kind, Failure::Kind::kRefused);
  EXPECT_THAT(ranks[0].peers.why_gone(1).words,
              ::testing::AllOf(HasSubstr("rank 1 is gone"), HasSubstr("ended or left")));
}

// Its port is free for a while, as if it had not been listened at yet.
TEST(Peers, OneThatIsRefusedTriesAgain) {
  Ranks ranks(2);
  const int port = ranks.addresses[1].endpoint.port;
  ranks.ranks[1].reset();
  ranks[0].peers.post(1, offer(3));
  for (int i = 0; i < 10; ++i) {
    ranks[0].turn();
  }
  ranks.ranks[1] = std::make_unique<Rank>(1, ranks.addresses, listen_on({"127.0.0.1", port}));
  EXPECT_TRUE(ranks.turn_until([&] { return !ranks[1].got.empty(); }));
  EXPECT_THAT(ranks[0].lost, ElementsAre());
}

// For longer than a rank is waited for that does not answer.
TEST(Peers, ARankIsNotGoneBecauseThisOneHasNoDescriptors) {
  Ranks ranks(2);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  ranks[0].peers.post(1, offer(3));
  const auto deadline = Deadline::in(std::chrono::milliseconds(5500));
  while (!deadline.passed() && ranks[0].lost.empty()) {
    ranks[0].turn();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(ranks[0].lost, ElementsAre());
  EXPECT_TRUE(ranks.turn_until([&] { return !ranks[1].got.empty(); }));
}

UniqueFd knock(const RankAddress& address, const std::vector<Frame>& frames) {
  UniqueFd fd = connect_to(address.endpoint, Deadline::in(std::chrono::seconds(30)));
  for (const auto& frame : frames) {
    EXPECT_EQ(::send(fd.get(), &frame, sizeof frame, MSG_NOSIGNAL),
              static_cast<ssize_t>(sizeof frame));
  }
  return fd;
}

// A rank that connects first says who it is, with the token of the rank it wants.
TEST(Peers, AStrangerIsSentAwayAndHarmsNobody) {
  Ranks ranks(2);
  for (const Frame& hello : {Frame{.kind = Kind::kHello, .tag = 101, .id = 1},  // Another's token.
                             Frame{.kind = Kind::kHello, .tag = 100, .id = 2},  // No such rank.
                             Frame{.kind = Kind::kHello, .tag = 100, .id = 0}}) {
    const auto stranger = knock(ranks.addresses[0], {hello, offer(1)});
    char byte = 0;
    ASSERT_TRUE(ranks.turn_until(
        [&] { return ::recv(stranger.get(), &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN; }));
  }
  EXPECT_EQ(ranks[0].peers.connected(), 0U);
  EXPECT_THAT(ranks[0].got, ElementsAre());
  ranks[1].peers.post(0, offer(4));
  EXPECT_TRUE(ranks.turn_until([&] { return ranks[0].got.size() == 1; }));
}

// A peer that answers each greeting with kYield and never greets.
TEST(Peers, WhoeverTellsOthersToYieldForEverIsGone) {
  for (const int rank : {0, 1}) {
    std::vector<Listener> listeners;
    std::vector<RankAddress> addresses;
    for (int i = 0; i < 2; ++i) {
      listeners.push_back(listen_on({"127.0.0.1", 0}));
      addresses.push_back({{"127.0.0.1", listeners.back().port}, 100 + static_cast<unsigned>(i)});
    }
    Listener& raw = listeners[static_cast<std::size_t>(1 - rank)];
    set_nonblocking(raw.fd.get());
    Rank here(rank, addresses, std::move(listeners[static_cast<std::size_t>(rank)]));
    here.peers.connect(1 - rank);
    const auto deadline = Deadline::in(std::chrono::seconds(20));
    std::vector<UniqueFd> sockets;
    while (here.lost.empty() && !deadline.passed()) {
      here.turn();
      if (auto accepted = accept_on(raw); accepted.fd) {
        const Frame yield{.kind = Kind::kYield};
        EXPECT_EQ(::send(accepted.fd.get(), &yield, sizeof yield, MSG_NOSIGNAL),
                  static_cast<ssize_t>(sizeof yield));
        sockets.push_back(std::move(accepted.fd));
      }
    }
    ASSERT_THAT(here.lost, ElementsAre(1 - rank));
    EXPECT_EQ(here.peers.why_gone(1 - rank).kind, Failure::Kind::kDied);
    EXPECT_THAT(here.peers.why_gone(1 - rank).words,
                HasSubstr(rank == 0 ? "a lower rank to yield" : "it connects itself"));
  }
}

TEST(Peers, ASecondConnectionOfARankIsSentAway) {
  Ranks ranks(2);
  ranks[1].peers.connect(0);
  ASSERT_TRUE(ranks.turn_until([&] { return ranks[0].peers.connected() == 1; }));
  const auto second = knock(ranks.addresses[0],
                            {{.kind = Kind::kHello, .tag = 100, .id = 1}, {.kind = Kind::kBye}});
  char byte = 0;
  ASSERT_TRUE(ranks.turn_until(
      [&] { return ::recv(second.get(), &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN; }));
  ranks[1].peers.post(0, offer(4));
  EXPECT_TRUE(ranks.turn_until([&] { return ranks[0].got.size() == 1; }));
}

}  // namespace
}  // namespace lockstep::net
