#include "lockstep/launch/network/heartbeats.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/launch/network/channel.h"

namespace lockstep::launch {
namespace {

using ::testing::HasSubstr;

struct Line {
  Line() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    outbox = std::make_shared<Outbox>(UniqueFd(ends[0]));
    peer.reset(ends[1]);
  }
  // What arrives next; empty after 10 s, and at the end.
  [[nodiscard]] std::string next() const {
    pollfd waiting{peer.get(), POLLIN, 0};
    char block[4096];
    const ssize_t got =
        ::poll(&waiting, 1, 10000) == 1 ? ::read(peer.get(), block, sizeof block) : 0;
    return {block, static_cast<std::size_t>(std::max<ssize_t>(0, got))};
  }

  std::shared_ptr<Outbox> outbox;
  UniqueFd peer;
};

TEST(Heartbeats, ComeWhileTheOwnerOfTheConnectionDoesSomethingElse) {
  const Line line;
  Heartbeats heartbeats;
  heartbeats.add(line.outbox);
  EXPECT_THAT(line.next(), HasSubstr("heartbeat"));
  EXPECT_THAT(line.next(), HasSubstr("heartbeat")) << "and go on";
}

TEST(Heartbeats, EndWithTheConnection) {
  Line line;
  Heartbeats heartbeats;
  heartbeats.add(line.outbox);
  EXPECT_THAT(line.next(), HasSubstr("heartbeat"));
  line.outbox.reset();
  EXPECT_EQ(line.next(), "") << "the thread must not keep the socket open";
}

TEST(Heartbeats, AClosedOutboxIsLeftAlone) {
  Line line;
  line.outbox->close();
  line.outbox->beat();
  EXPECT_EQ(line.next(), "");
  EXPECT_EQ(line.outbox->unsent(), 0U);
}

TEST(Outbox, BeatsOnlyAfterASilence) {
  const Line line;
  line.outbox->post("words");
  line.outbox->beat();
  EXPECT_EQ(line.next(), "words");
}

// Messages of the owner and heartbeats of the thread share one stream; none may cut another.
TEST(Outbox, MessagesAndHeartbeatsDoNotMix) {
  Line line;
  Channel reader(std::move(line.peer));
  line.outbox->post(greeting());  // A channel begins with it.
  std::jthread beating([&] {
    for (int i = 0; i < 1000; ++i) {
      line.outbox->beat();
      line.outbox->post(frame(encode(Heartbeat{})));
    }
  });
  int received = 0;
  for (int i = 0; i < 1000; ++i) {
    line.outbox->post(frame(encode(Done{i})));
    for (const auto& message : reader.receive()) {
      EXPECT_EQ(std::get<Done>(message).attempt, received++);
    }
  }
  beating.join();
  const Deadline deadline = Deadline::in(std::chrono::seconds(10));
  while (received < 1000 && !deadline.passed()) {
    line.outbox->flush();
    for (const auto& message : reader.receive()) {
      EXPECT_EQ(std::get<Done>(message).attempt, received++);
    }
  }
  EXPECT_EQ(received, 1000);
}

}  // namespace
}  // namespace lockstep::launch
