// Ranks in processes of their own, in two network namespaces as hosts. Needs root and iproute2.
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <list>

#include "lockstep/base/fd.h"
#include "lockstep/base/text/text.h"
#include "tests/net/mailboxes.h"

namespace lockstep::net {
namespace {

bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;  // NOLINT: no user's text.
}

struct TwoHosts {
  TwoHosts() {
    is_there = ::geteuid() == 0;
    for (const int host : {0, 1}) {
      is_there = is_there && run("ip netns add " + name(host));
    }
    is_there = is_there && run("ip link add ls0 netns " + name(0) +
                               " type veth peer name ls1 netns " + name(1));
    for (const int host : {0, 1}) {
      const std::string ip = "ip -n " + name(host);
      const std::string link = "ls" + std::to_string(host);
      is_there = is_there && run(ip + " link set lo up") &&
                 run(ip + " addr add " + address(host) + "/24 dev " + link) &&
                 run(ip + " link set " + link + " up");
    }
  }
  ~TwoHosts() {
    run("ip netns del " + name(0));
    run("ip netns del " + name(1));
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  [[nodiscard]] std::string name(int host) const { return tag + "-" + std::to_string(host); }
  static std::string address(int host) { return "10.213.78." + std::to_string(1 + host); }
  void enter(int host) const {
    const UniqueFd there(::open(("/var/run/netns/" + name(host)).c_str(), O_RDONLY | O_CLOEXEC));
    if (::setns(there.get(), CLONE_NEWNET) != 0) {
      throw_errno("setns");
    }
  }
  std::string tag = "lockstep-net-" + std::to_string(::getpid());
  bool is_there = false;
};

std::vector<std::string> read_lines(int fd, std::size_t count) {
  std::string text;
  while (std::count(text.begin(), text.end(), '\n') < static_cast<std::ptrdiff_t>(count)) {
    char part[1000];
    const auto got = ::read(fd, part, sizeof part);
    if (got <= 0) {
      throw PeerError("a rank has ended");
    }
    text.append(part, static_cast<std::size_t>(got));
  }
  auto lines = split(text, '\n');
  lines.resize(count);
  return lines;
}

constexpr int kRanks = 4;

// A thousand messages to each other rank and as many of each, large ones among small ones.
int exchange(int rank, Mailbox& box) {
  constexpr int kMany = 1000;
  std::vector<MessagePointer> sent;
  std::list<Receive> receives;
  for (int i = 0; i < kMany; ++i) {
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != rank) {
        const std::size_t count = i % 100 == 0 ? 50000 : 3;
        receives.emplace_back(box, peer, 1, count);
        sent.push_back(send(box, peer, 1, numbers(count, 10000 * rank + i)));
      }
    }
  }
  auto receive = receives.begin();
  int wrong = 0;
  for (int i = 0; i < kMany; ++i) {
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer != rank) {
        wrong += (receive++)->wait()[2] == 10000 * peer + i + 2 ? 0 : 1;
      }
    }
  }
  for (const auto& message : sent) {
    wrong += box.wait_until(*message, soon()) && !message->error() ? 0 : 1;
  }
  wrong += box.connections() == kRanks - 1 ? 0 : 1;
  for (int peer = 0; peer < kRanks; ++peer) {  // Nobody leaves before all have counted.
    if (peer != rank) {
      send(box, peer, 2, {1});
    }
  }
  for (int peer = 0; peer < kRanks; ++peer) {
    wrong += peer == rank || Receive(box, peer, 2).wait()[0] == 1 ? 0 : 1;
  }
  return wrong;
}

TEST(TwoHosts, AThousandMessagesBothWaysBetweenFourRanks) {
  const TwoHosts hosts;
  if (!hosts.is_there) {
    GTEST_SKIP() << "no namespaces here";
  }
  std::vector<Pipe> up;
  std::vector<Pipe> down;
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    up.push_back(make_pipe());
    down.push_back(make_pipe());
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int wrong = 1;
      try {
        hosts.enter(rank % 2);
        Mailbox box(rank, TwoHosts::address(rank % 2));
        write_all(up.back().write_end.get(), box.own_address() + "\n");
        box.open(read_lines(down.back().read_end.get(), kRanks));
        wrong = exchange(rank, box);
        box.stop();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      }
      ::_exit(wrong == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  std::string addresses;
  for (auto& pipe : up) {
    addresses += read_lines(pipe.read_end.get(), 1)[0] + "\n";
  }
  for (auto& pipe : down) {
    ASSERT_TRUE(write_all(pipe.write_end.get(), addresses));
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace lockstep::net
