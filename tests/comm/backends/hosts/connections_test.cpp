#include "lockstep/comm/backends/hosts/connections.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/base/sockets/socket.h"

namespace lockstep::comm {
namespace {

// Both ends of a connection over loopback.
struct Pair {
  Pair() {
    const auto listener = listen_on({"127.0.0.1", 0});
    here = connect_to({"127.0.0.1", listener.port}, Deadline::in(std::chrono::seconds(5)));
    there = UniqueFd(::accept(listener.fd.get(), nullptr, nullptr));
  }
  UniqueFd here;
  UniqueFd there;
};

bool has_ended(const UniqueFd& fd) {
  char byte = 0;
  return ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0;
}

TEST(Connections, FindsThoseThatWereOpenedMeanwhile) {
  const Pair before;
  Connections connections;
  std::optional<Pair> pair;
  connections.add_opened_by([&] { pair.emplace(); }, {"127.0.0.1"});
  EXPECT_EQ(connections.size(), 2U);
  connections.cut();
  EXPECT_TRUE(has_ended(pair->here));
  EXPECT_TRUE(has_ended(pair->there));
  EXPECT_FALSE(has_ended(before.here));
}

TEST(Connections, KnowsWhetherOneWasClosedByEitherSide) {
  Connections connections;
  std::optional<Pair> pair;
  connections.add_opened_by([&] { pair.emplace(); }, {"127.0.0.1"});
  EXPECT_FALSE(connections.has_closed_one());
  ::shutdown(pair->there.get(), SHUT_RDWR);
  EXPECT_TRUE(connections.has_closed_one());
  pair.reset();
  EXPECT_TRUE(connections.has_closed_one());
}

TEST(Connections, ThoseToOtherAddressesAreNotTaken) {
  Connections connections;
  std::optional<Pair> pair;
  connections.add_opened_by([&] { pair.emplace(); }, {"10.0.0.1"});
  EXPECT_EQ(connections.size(), 0U);
}

TEST(Connections, ThoseThatAnotherThreadOpenedMeanwhileAreKnownByTheirPorts) {
  Connections connections;
  std::optional<Listener> listener;
  std::optional<Pair> other;
  UniqueFd here;
  const auto ports = connections.add_opened_by(
      [&] {
        listener = listen_on({"127.0.0.1", 0});
        other.emplace();
        here = connect_to({"127.0.0.1", listener->port}, Deadline::in(std::chrono::seconds(5)));
      },
      {"127.0.0.1"});
  const UniqueFd there(::accept(listener->fd.get(), nullptr, nullptr));
  EXPECT_THAT(ports, ::testing::ElementsAre(listener->port));
  EXPECT_EQ(connections.size(), 3U);
  connections.keep_at({.own_ports = {}, .peer_ports = ports});
  EXPECT_EQ(connections.size(), 1U) << "the one to the port";
  connections.cut();
  EXPECT_TRUE(has_ended(there));
  EXPECT_FALSE(has_ended(other->here));
}

TEST(Connections, ADescriptorThatWasClosedAndIsAnothersNowIsLeftAlone) {
  Connections connections;
  std::optional<Pair> pair;
  connections.add_opened_by([&] { pair.emplace(); }, {"127.0.0.1"});
  const int number = pair->here.get();
  pair.reset();
  const Pair other;
  EXPECT_TRUE(other.here.get() == number || other.there.get() == number);
  connections.cut();
  EXPECT_FALSE(has_ended(other.here));
  EXPECT_FALSE(has_ended(other.there));
}

TEST(Connections, APeerThatReadsNothingIsNotSilent) {
  Connections connections;
  std::optional<Pair> pair;
  connections.add_opened_by([&] { pair.emplace(); }, {"127.0.0.1"});
  connections.watch();
  const std::string much(std::size_t{1} << 16, 'x');
  while (::send(pair->here.get(), much.data(), much.size(), MSG_DONTWAIT) > 0) {
  }
  ::sleep(5);
  EXPECT_THAT(connections.silent(), ::testing::IsEmpty());
  EXPECT_FALSE(has_ended(pair->here));
}

TEST(Connections, IdleOnesAreAskedWhetherTheirPeerIsThere) {
  Connections connections;
  std::optional<Pair> pair;
  connections.add_opened_by([&] { pair.emplace(); }, {"127.0.0.1"});
  connections.watch();
  int on = 0;
  socklen_t length = sizeof on;
  ASSERT_EQ(::getsockopt(pair->here.get(), SOL_SOCKET, SO_KEEPALIVE, &on, &length), 0);
  EXPECT_EQ(on, 1);
}

}  // namespace
}  // namespace lockstep::comm
