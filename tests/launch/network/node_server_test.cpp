#include "lockstep/launch/network/node_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <set>

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class NodeServerTest : public ::testing::Test {
 protected:
  NodeServerTest() {
    Listener listener = listen_on({"127.0.0.1", 0});
    port_ = listener.port;
    NodeServerHooks hooks;
    hooks.on_message = [this](PeerId peer, const Message& message) {
      if (std::holds_alternative<Join>(message)) {
        members_.insert(peer);
      }
    };
    hooks.on_lost = [this](PeerId, const std::string& why) { lost_.push_back(why); };
    hooks.is_member = [this](PeerId peer) { return members_.contains(peer); };
    hooks.note = [this](const std::string& line) { notes_.push_back(line); };
    node_server_ = std::make_unique<NodeServer>(loop_, std::move(listener), std::move(hooks),
                                                std::chrono::seconds(15));
  }

  UniqueFd connect() const {
    return connect_to({"127.0.0.1", port_}, Deadline::in(std::chrono::seconds(5)));
  }

  template <class Condition>
  void run_until(Condition condition) {
    const Deadline deadline = Deadline::in(std::chrono::seconds(10));
    while (!condition() && !deadline.passed()) {
      loop_.run_once(Deadline::in(std::chrono::milliseconds(10)));
      node_server_->on_time();
    }
    EXPECT_TRUE(condition());
  }

  EventLoop loop_;
  int port_ = 0;
  std::unique_ptr<NodeServer> node_server_;
  std::set<PeerId> members_;
  std::vector<std::string> lost_;
  std::vector<std::string> notes_;
};

TEST_F(NodeServerTest, AMemberThatLeavesIsLost) {
  {
    Channel channel(connect());
    channel.send(Join{});
    run_until([&] { return !members_.empty(); });
  }
  run_until([&] { return !lost_.empty(); });
  EXPECT_THAT(lost_, SizeIs(1));
}

TEST_F(NodeServerTest, MessagesReachTheMember) {
  Channel channel(connect());
  channel.send(Join{});
  run_until([&] { return !members_.empty(); });
  node_server_->send(*members_.begin(), End{3, ""});
  node_server_->send(999, End{4, ""});
  std::vector<Message> received;
  run_until([&] {
    auto more = channel.receive();
    received.insert(received.end(), more.begin(), more.end());
    return !received.empty();
  });
  EXPECT_EQ(std::get<End>(received.front()).exit_code, 3);
}

TEST_F(NodeServerTest, GarbageIsDroppedAloneAndNotedOnce) {
  Channel member(connect());
  member.send(Join{});
  run_until([&] { return !members_.empty(); });
  for (int i = 0; i < 9; ++i) {
    const UniqueFd stranger = connect();
    write_all(stranger.get(), "garbage that is no greeting");
    char byte = 0;
    run_until(
        [&] { return ::recv(stranger.get(), &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN; });
  }
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("not a lockstep launcher")));
  EXPECT_THAT(lost_, SizeIs(0));
}

TEST_F(NodeServerTest, WhoIsRefusedIsToldOnceByAddressAndReason) {
  PeerId peer = kLocalPeer;
  for (const char* reason : {"a wrong \x1b[2Jid", "a wrong \x1b[2Jid", "one too many"}) {
    Channel stranger(connect());
    run_until([&] {
      stranger.receive();
      return stranger.greeted();
    });
    node_server_->send(++peer, Refused{reason});
  }
  run_until([&] { return notes_.size() >= 2; });
  EXPECT_THAT(notes_, ElementsAre("turned away 127.0.0.1: a wrong [2Jid",
                                  "turned away 127.0.0.1: one too many"));
}

TEST_F(NodeServerTest, WhoShallComeAgainIsNotWorthAWord) {
  Channel stranger(connect());
  run_until([&] {
    stranger.receive();
    return stranger.greeted();
  });
  node_server_->send(1, Refused{"the job is ending", true});
  stranger.close(Deadline::in(std::chrono::milliseconds(1)));
  UniqueFd other = connect();
  write_all(other.get(), "garbage that is no greeting");
  run_until([&] { return !notes_.empty(); });
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("not a lockstep launcher")));
}

TEST_F(NodeServerTest, HeartbeatsComeWhileTheLeaderIsBusy) {
  Channel channel(connect());
  channel.send(Join{});
  run_until([&] { return !members_.empty(); });
  channel.receive();  // The greeting. From here on nobody runs the server's loop.
  pollfd waiting{channel.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 10000), 1) << "no sign of life from a leader that is busy";
}

// Opens files until this process may have no more.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit little = before_;
    little.rlim_cur = 64;
    ::setrlimit(RLIMIT_NOFILE, &little);
    for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) {
      files_.emplace_back(fd);
    }
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<UniqueFd> files_;
};

TEST_F(NodeServerTest, WithoutDescriptorsItWaitsInsteadOfSpinning) {
  Channel channel(connect());
  channel.send(Join{});
  std::vector<std::string> notes;
  bool waited = false;
  {
    const NoDescriptors none;  // Nothing is expected in here: UBSan needs one to look at a matcher.
    loop_.run_once(Deadline::in(std::chrono::seconds(10)));
    notes = notes_;
    const Deadline tick = Deadline::in(std::chrono::milliseconds(20));
    loop_.run_once(tick);
    waited = tick.passed();
  }
  EXPECT_THAT(notes, ElementsAre(HasSubstr("has to wait: Too many open files")));
  EXPECT_TRUE(waited) << "the loop was woken at once by what nobody can accept";
  run_until([&] { return !members_.empty(); });
}

TEST_F(NodeServerTest, SilentStrangersAreDroppedAfterAWhile) {
  const UniqueFd stranger = connect();
  run_until([&] { return !notes_.empty(); });
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("did not introduce itself within 2 s")));
}

}  // namespace
}  // namespace lockstep::launch
