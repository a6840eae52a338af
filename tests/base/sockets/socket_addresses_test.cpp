// Names with several addresses. The resolver of this program knows one more name, whatever
// /etc/hosts says.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/socket.h"

namespace {

constexpr const char* kName = "name-with-several-addresses";
std::vector<std::string> addresses_of_name;  // NOLINT: read by a function of the C library.

}  // namespace

extern "C" int getaddrinfo(const char* host, const char* port, const addrinfo* hints,
                           addrinfo** found) {
  using Resolve = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Resolve>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (host == nullptr || std::string(host) != kName) {
    return real(host, port, hints, found);
  }
  for (const auto& address : addresses_of_name) {
    if (const int error = real(address.c_str(), port, hints, found); error != 0) {
      return error;
    }
    found = &(*found)->ai_next;
  }
  return 0;
}

namespace lockstep {
namespace {

using std::chrono::milliseconds;

// Listens, but its queue is full: who connects gets no answer, as from a host that is down.
class SilentListener {
 public:
  SilentListener(const std::string& address, int port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    at.sin_addr.s_addr = ::inet_addr(address.c_str());
    const auto* name = reinterpret_cast<const sockaddr*>(&at);
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(listener_.get(), name, sizeof at) != 0 || ::listen(listener_.get(), 0) != 0) {
      return;
    }
    while (!is_silent_ && queue_.size() < 10) {
      UniqueFd one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      ::connect(one.get(), name, sizeof at);
      pollfd waiting{one.get(), POLLOUT, 0};
      is_silent_ = ::poll(&waiting, 1, 50) == 0;
      queue_.push_back(std::move(one));
    }
  }
  [[nodiscard]] bool is_silent() const { return is_silent_; }

 private:
  UniqueFd listener_;
  std::vector<UniqueFd> queue_;
  bool is_silent_ = false;
};

TEST(ConnectTo, AnAddressThatDoesNotAnswerLeavesTimeForTheOthers) {
  const Listener good = listen_on({"127.0.0.3", 0});
  const SilentListener silent("127.0.0.2", good.port);
  ASSERT_TRUE(silent.is_silent());
  addresses_of_name = {"127.0.0.2", "127.0.0.3"};
  const auto deadline = Deadline::in(milliseconds(2000));
  EXPECT_TRUE(connect_to({kName, good.port}, deadline));
  EXPECT_FALSE(deadline.passed()) << "the first address took all the time";
}

TEST(ListenOn, TriesAllAddressesOfAName) {
  // 192.0.2.0/24 is reserved for documentation: no machine has it.
  addresses_of_name = {"192.0.2.1", "127.0.0.3"};
  const Listener listener = listen_on({kName, 0});
  EXPECT_TRUE(connect_to({"127.0.0.3", listener.port}, Deadline::in(milliseconds(1000))));
}

TEST(ListenOn, ANameWithoutAnAddressOfThisMachineIsNamed) {
  addresses_of_name = {"192.0.2.1", "203.0.113.1"};  // The second one is reserved, too.
  EXPECT_THAT([] { listen_on({kName, 0}); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr(kName)));
}

}  // namespace
}  // namespace lockstep
