#include "lockstep/launch/channel.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "lockstep/base/error.h"

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
  EXPECT_THAT([&] { a.receive(); }, ThrowsMessage<PeerError>(HasSubstr("not a lockstep launcher")));
}

TEST(Channel, SendsHeartbeatsWhenIdle) {
  Ends ends = socket_pair();
  Channel a(std::move(ends.a));
  std::this_thread::sleep_for(kHeartbeatInterval);
  a.on_time();
  char block[256];
  const ssize_t got = ::read(ends.b.get(), block, sizeof block);
  EXPECT_THAT(std::string(block, static_cast<std::size_t>(got)), HasSubstr("heartbeat"));
}

TEST(Channel, SilenceIsAnError) {
  Ends ends = socket_pair();
  Channel a(std::move(ends.a));
  std::this_thread::sleep_for(kSilenceLimit);
  EXPECT_THAT([&] { a.on_time(); },
              ThrowsMessage<PeerError>(HasSubstr("no sign of life for 3.5 s")));
}

TEST(Channel, CloseLetsTheLastWordArrive) {
  Ends ends = socket_pair();
  Channel a(std::move(ends.a));
  std::thread peer([&] {
    Channel b(std::move(ends.b));
    std::vector<Message> all;
    while (all.empty()) {
      b.send(Heartbeat{});
      for (auto& message : b.receive()) {
        all.push_back(message);
      }
    }
    EXPECT_EQ(std::get<End>(all.front()).exit_code, 7);
  });
  a.send(End{7, ""});
  a.close(Deadline::in(std::chrono::seconds(5)));
  peer.join();
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
