#include "lockstep/base/sockets/socket.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <future>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::ThrowsMessage;

std::string parsed(std::string_view text, std::optional<int> default_port = std::nullopt) {
  const Endpoint endpoint = parse_endpoint(text, "--rdzv-endpoint", default_port);
  return endpoint.host + " " + std::to_string(endpoint.port);
}

// A port that nobody listens on, or at least nobody did a moment ago.
int free_port() { return listen_on({"127.0.0.1", 0}).port; }

TEST(ParseEndpoint, TakesHostAndPort) {
  EXPECT_EQ(parsed("node7:29500"), "node7 29500");
  EXPECT_EQ(parsed("10.0.0.1:1"), "10.0.0.1 1");
  EXPECT_EQ(parsed("node7", 29400), "node7 29400");
  EXPECT_EQ(parsed("node7:65535", 29400), "node7 65535");
}

TEST(ParseEndpoint, TakesIpv6InBracketsOrBareWithoutPort) {
  EXPECT_EQ(parsed("[::1]:29500"), "::1 29500");
  EXPECT_EQ(parsed("[fe80::2]", 29400), "fe80::2 29400");
  EXPECT_EQ(parsed("fe80::2", 29400), "fe80::2 29400");
}

TEST(ParseEndpoint, RefusesWhatIsNoEndpointAndNamesTheFlag) {
  for (const char* text : {"", ":1", "node7", "node7:", "node7:0", "node7:65536", "node7:12x",
                           "node7:-1", "[::1", "[::1]", "::1]:5", "[]:5", "[::1]x:5"}) {
    EXPECT_THAT(
        [&] { return parse_endpoint(text, "--rdzv-endpoint"); },
        ThrowsMessage<UsageError>(HasSubstr("--rdzv-endpoint is '" + std::string(text) + "'")))
        << text;
  }
}

TEST(EndpointText, PutsIpv6InBrackets) {
  EXPECT_EQ(to_text(Endpoint{"::1", 5}), "[::1]:5");
  EXPECT_EQ(to_text(Endpoint{"node7", 5}), "node7:5");
}

TEST(ListenOn, PortZeroFindsAFreeOneOnThatAddressAlone) {
  const Listener listener = listen_on({"127.0.0.1", 0});
  EXPECT_GT(listener.port, 0);
  sockaddr_in bound{};
  socklen_t size = sizeof bound;
  ASSERT_EQ(::getsockname(listener.fd.get(), reinterpret_cast<sockaddr*>(&bound), &size), 0);
  EXPECT_EQ(ntohl(bound.sin_addr.s_addr), INADDR_LOOPBACK);
  EXPECT_EQ(ntohs(bound.sin_port), listener.port);
}

TEST(ListenOn, ATakenPortIsNamed) {
  const Listener first = listen_on({"127.0.0.1", 0});
  EXPECT_THAT([&] { listen_on({"127.0.0.1", first.port}); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("127.0.0.1:" + std::to_string(first.port)),
                                              HasSubstr("the port is taken"))));
}

TEST(ListenOn, AForeignAddressIsNamed) {
  // 192.0.2.0/24 is reserved for documentation: no machine has it.
  EXPECT_THAT([] { listen_on({"192.0.2.1", 0}); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("192.0.2.1:0"),
                                              HasSubstr("expected an address of this machine"))));
}

TEST(ConnectTo, ReachesAListener) {
  const Listener listener = listen_on({"127.0.0.1", 0});
  EXPECT_TRUE(connect_to({"127.0.0.1", listener.port}, Deadline::in(seconds(10))));
}

TEST(AcceptOn, SaysWhereTheConnectionComesFrom) {
  const Listener listener = listen_on({"127.0.0.1", 0});
  const UniqueFd client = connect_to({"127.0.0.1", listener.port}, Deadline::in(seconds(10)));
  const Accepted accepted = accept_on(listener);
  EXPECT_TRUE(accepted.fd);
  EXPECT_EQ(accepted.host, "127.0.0.1");
}

TEST(AcceptOn, NobodyThereIsNoDescriptor) {
  const Listener listener = listen_on({"127.0.0.1", 0});
  set_nonblocking(listener.fd.get());
  EXPECT_FALSE(accept_on(listener).fd);
}

TEST(ConnectTo, WaitsForAListenerThatComesLater) {
  const int port = free_port();
  auto connected = std::async(std::launch::async, [port] {
    return connect_to({"127.0.0.1", port}, Deadline::in(seconds(20)));
  });
  const Listener listener = listen_on({"127.0.0.1", port});
  EXPECT_TRUE(connected.get());
}

TEST(ConnectTo, NobodyThereNamesAddressReasonAndTime) {
  const int port = free_port();
  EXPECT_THAT(
      [port] { connect_to({"127.0.0.1", port}, Deadline::in(milliseconds(250))); },
      ThrowsMessage<PeerError>(AllOf(HasSubstr("connecting to 127.0.0.1:" + std::to_string(port)),
                                     HasSubstr("Connection refused"), HasSubstr("after 250 ms"))));
}

TEST(IsThisMachine, KnowsItsOwnAddresses) {
  EXPECT_TRUE(is_this_machine("127.0.0.1"));
  EXPECT_TRUE(is_this_machine("127.0.1.1"));  // Debian's address for the machine's own name.
  EXPECT_TRUE(is_this_machine("localhost"));
  EXPECT_FALSE(is_this_machine("192.0.2.1"));
}

TEST(InterfaceTowards, LoopbackIsLo) {
  EXPECT_THAT(interface_towards("127.0.0.1"), Optional(std::string("lo")));
  EXPECT_THAT(interface_towards("127.0.1.1"), Optional(std::string("lo")));
}

}  // namespace
}  // namespace lockstep
