#include "lockstep/net/door.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "lockstep/base/fd.h"

namespace lockstep::net {
namespace {

struct House {
  House() : listener(listen_on({"127.0.0.1", 0})), port(listener.port), door(std::move(listener)) {}
  std::vector<Door::Guest> turn() {
    std::vector<pollfd> ready;
    door.add_to(ready);
    ::poll(ready.data(), ready.size(), std::min(door.patience(), 10));
    return door.look(ready);
  }
  UniqueFd knock() const {
    return connect_to({"127.0.0.1", port}, Deadline::in(std::chrono::seconds(30)));
  }
  Listener listener;
  int port;
  Door door;
};

bool was_sent_away(const UniqueFd& fd) {
  char byte = 0;
  return ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0 || errno != EAGAIN;
}

TEST(Door, WhoeverGreetsComesIn) {
  House house;
  const auto knocked = house.knock();
  const Frame hello{.kind = Frame::Kind::kHello, .tag = 7, .id = 1};
  ASSERT_EQ(::send(knocked.get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  std::vector<Door::Guest> guests;
  while (guests.empty()) {
    guests = house.turn();
  }
  EXPECT_EQ(guests[0].hello.tag, 7U);
  EXPECT_TRUE(guests[0].link->is_open());
  EXPECT_EQ(house.door.guests(), 0U);
}

TEST(Door, WhoeverSaysNothingIsSentAwayAfterAWhile) {
  House house;
  const auto knocked = house.knock();
  while (house.door.guests() == 0) {
    house.turn();
  }
  const auto begin = std::chrono::steady_clock::now();
  while (house.door.guests() != 0) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, 3 * Door::kGreetWithin);
    EXPECT_TRUE(house.turn().empty());
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, Door::kGreetWithin / 2);
  EXPECT_TRUE(was_sent_away(knocked));
}

// As after a SIGSTOP between poll() and the look at what it said.
TEST(Door, WhoeverGreetedInTimeComesInAlthoughNobodyLooked) {
  House house;
  const auto knocked = house.knock();
  while (house.door.guests() == 0) {
    house.turn();
  }
  std::vector<pollfd> ready;
  house.door.add_to(ready);
  ASSERT_EQ(::poll(ready.data(), ready.size(), 0), 0);
  const Frame hello{.kind = Frame::Kind::kHello, .tag = 7, .id = 1};
  ASSERT_EQ(::send(knocked.get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  std::this_thread::sleep_for(Door::kGreetWithin);
  EXPECT_EQ(house.door.look(ready).size(), 1U);
}

TEST(Door, WhoeverSaysSomethingElseIsSentAway) {
  for (const Frame& frame :
       {Frame{.kind = Frame::Kind::kMessage, .bytes = std::uint64_t{1} << 60},
        Frame{.kind = Frame::Kind::kWelcome}, Frame{.magic = 1, .kind = Frame::Kind::kHello}}) {
    House house;
    const auto knocked = house.knock();
    ASSERT_EQ(::send(knocked.get(), &frame, sizeof frame, 0), static_cast<ssize_t>(sizeof frame));
    while (house.door.guests() == 0) {
      EXPECT_TRUE(house.turn().empty());
    }
    const auto deadline = Deadline::in(Door::kGreetWithin / 2);
    while (house.door.guests() != 0 && !deadline.passed()) {
      EXPECT_TRUE(house.turn().empty());
    }
    EXPECT_EQ(house.door.guests(), 0U);
  }
}

// Else whoever connects would wait for a greeting until the fork ends.
TEST(Door, IsClosedAlthoughAForkHasItsSocket) {
  House house;
  Pipe end = make_pipe();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(end.write_end.get());
    char byte = 0;
    (void)!::read(end.read_end.get(), &byte, 1);  // Until the parent closes the pipe.
    ::_exit(0);
  }
  house.door.close();
  Link link(Endpoint{"127.0.0.1", house.port});
  pollfd ready{link.fd(), POLLOUT, 0};
  EXPECT_EQ(::poll(&ready, 1, 30000), 1);
  link.finish_connecting();
  EXPECT_TRUE(link.was_refused());
  end.write_end.reset();
  ::waitpid(child, nullptr, 0);
}

TEST(Door, ARankComesInAlthoughStrangersTakeAllPlaces) {
  House house;
  std::vector<UniqueFd> strangers;
  for (std::size_t i = 0; i < Door::kGuests + 20; ++i) {
    strangers.push_back(house.knock());
  }
  const auto rank = house.knock();
  const Frame hello{.kind = Frame::Kind::kHello, .tag = 7, .id = 1};
  ASSERT_EQ(::send(rank.get(), &hello, sizeof hello, 0), static_cast<ssize_t>(sizeof hello));
  std::vector<Door::Guest> guests;
  for (int i = 0; i < 20 && guests.empty(); ++i) {
    guests = house.turn();
  }
  ASSERT_EQ(guests.size(), 1U);
  EXPECT_TRUE(guests[0].link->is_open());
  EXPECT_TRUE(was_sent_away(strangers.front()));
  EXPECT_FALSE(was_sent_away(strangers.back()));
}

TEST(Door, OnlySoManyAreLetInAtATime) {
  House house;
  std::vector<UniqueFd> knocked;
  for (std::size_t i = 0; i < Door::kGuests + 20; ++i) {
    knocked.push_back(house.knock());
  }
  for (int i = 0; i < 50; ++i) {
    std::vector<pollfd> ready;
    house.door.add_to(ready);
    ::poll(ready.data(), ready.size(), 0);
    house.door.look(ready);
    EXPECT_LE(house.door.guests(), static_cast<std::size_t>(16 * (i + 1)));
    EXPECT_LE(house.door.guests(), Door::kGuests);
  }
  EXPECT_EQ(house.door.guests(), Door::kGuests);
  house.door.close();
  EXPECT_EQ(house.door.guests(), 0U);
}

}  // namespace
}  // namespace lockstep::net
