#include "lockstep/shm/peers/segment_exchange.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/sockets/unix_socket.h"
#include "lockstep/shm/peers/notice.h"
#include "lockstep/shm/segments/layout.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using ::testing::AllOf;
using testing::FolderBoard;
using ::testing::HasSubstr;
using testing::soon;
using ::testing::ThrowsMessage;

constexpr std::size_t kBytes = 1 << 20;

Segment segment_of(int rank) {
  Segment segment = Segment::create(kBytes);
  segment.data()[0] = static_cast<std::byte>(rank + 1);
  return segment;
}

// A process that runs `body`; what it expects in vain is a failure here too.
class Process {
 public:
  explicit Process(const std::function<void()>& body) {
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      EXPECT_NO_THROW(body());
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (pid_ > 0) {
      EXPECT_EQ(status(), 0);
    }
  }
  int status() {
    int status = -1;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

// The rank is killed as soon as the others can read its notice.
class LastWord : public Board {
 public:
  explicit LastWord(Board& board) : board_(board) {}
  void post(const std::string& key, const std::string& text) override {
    board_.post(key, text);
    ::raise(SIGKILL);
  }
  std::string read(const std::string& key, Deadline deadline) override {
    return board_.read(key, deadline);
  }

 private:
  Board& board_;
};

Notice notice_of(Board& board, int rank) {
  return parse_notice(board.read(notice_key(rank), soon())).value();
}

// A rank of this host that listens there.
Notice notice_with(const std::string& socket) {
  return {
      .socket = socket, .secret = "secret", .pid = ::getpid(), .host_id = host_id(), .host = "box"};
}

// What a rank says first, and when it hands over its segment.
std::string hello(std::uint32_t rank, const std::string& secret, std::uint32_t version = kVersion) {
  std::string text(16 + 32, '\0');
  std::memcpy(text.data(), &kMagic, 8);
  std::memcpy(text.data() + 8, &version, 4);
  std::memcpy(text.data() + 12, &rank, 4);
  secret.copy(text.data() + 16, 32);
  return text;
}

TEST(ShmHandOver, AGroupOfOneNeedsNobody) {
  FolderBoard board;
  const auto ring = exchange_segments(segment_of(0), 0, 1, board, soon());
  ASSERT_EQ(ring.segments.size(), 1U);
  EXPECT_EQ(ring.segments[0].data()[0], std::byte{1});
  EXPECT_EQ(ring.peers[0].process.pid, ::getpid());
}

class ShmHandOverOf : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ShmHandOverOf, ::testing::Values(2, 3, 8));

TEST_P(ShmHandOverOf, EveryRankMapsTheSegmentsOfAll) {
  FolderBoard board;
  std::vector<std::unique_ptr<Process>> processes;
  for (int rank = 0; rank < GetParam(); ++rank) {
    processes.push_back(std::make_unique<Process>([&, rank] {
      const auto ring = exchange_segments(segment_of(rank), rank, GetParam(), board, soon());
      for (int other = 0; other < GetParam(); ++other) {
        const auto i = static_cast<std::size_t>(other);
        EXPECT_EQ(ring.segments[i].data()[0], static_cast<std::byte>(other + 1));
        EXPECT_GE(ring.segments[i].bytes(), sizeof(Control));
      }
    }));
  }
}

TEST_P(ShmHandOverOf, PeersAreTheProcessesThatHandedOver) {
  FolderBoard board;
  std::vector<std::unique_ptr<Process>> processes;
  for (int rank = 0; rank < GetParam(); ++rank) {
    processes.push_back(std::make_unique<Process>([&, rank] {
      const auto ring = exchange_segments(segment_of(rank), rank, GetParam(), board, soon());
      board.post("pid/" + std::to_string(rank), std::to_string(::getpid()));
      for (int other = 0; other < GetParam(); ++other) {
        const auto& peer = ring.peers[static_cast<std::size_t>(other)];
        EXPECT_EQ(std::to_string(peer.process.pid),
                  board.read("pid/" + std::to_string(other), soon()));
        EXPECT_EQ(peer.host, host_name());
      }
      // The start time of a process that is gone would be unknown.
      board.post("read/" + std::to_string(rank), "");
      for (int other = 0; other < GetParam(); ++other) {
        board.read("read/" + std::to_string(other), soon());
      }
    }));
  }
}

TEST(ShmHandOver, RanksOnDifferentHostsAreAUsageErrorThatNamesBoth) {
  FolderBoard board;
  std::vector<std::unique_ptr<Process>> processes;
  for (int rank = 0; rank < 2; ++rank) {
    processes.push_back(std::make_unique<Process>([&, rank] {
      ::setenv("LOCKSTEP_HOST_ID", rank == 0 ? "left-box" : "right-box", 1);
      EXPECT_THAT([&] { exchange_segments(segment_of(rank), rank, 2, board, soon()); },
                  ThrowsMessage<UsageError>(AllOf(HasSubstr("left-box"), HasSubstr("right-box"),
                                                  HasSubstr(host_name()), HasSubstr("gloo"))));
    }));
  }
}

class ShmHandOverWithoutRank : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ShmHandOverWithoutRank, ::testing::Values(0, 1));

TEST_P(ShmHandOverWithoutRank, ADeadRankIsNamedLongBeforeTheDeadline) {
  FolderBoard board;
  const int dead = GetParam();
  const Deadline deadline = Deadline::in(std::chrono::seconds(60));
  Process victim([&] {
    LastWord last_word(board);
    exchange_segments(segment_of(dead), dead, 2, last_word, deadline);
  });
  const pid_t pid = victim.pid();
  Process survivor([&] {
    EXPECT_THAT([&] { exchange_segments(segment_of(1 - dead), 1 - dead, 2, board, deadline); },
                ThrowsMessage<PeerError>(
                    HasSubstr("rank " + std::to_string(dead) + " (pid " + std::to_string(pid))));
  });
  EXPECT_TRUE(WIFSIGNALED(victim.status()));
  EXPECT_EQ(survivor.status(), 0);
  EXPECT_GT(deadline.remaining(), std::chrono::seconds(50));
}

TEST(ShmHandOver, ARankThatLivesAndDoesNotComeIsNamedAtTheDeadline) {
  FolderBoard board;
  const auto listener = listen_unix(1);
  board.post(notice_key(1), notice_text(notice_with(listener.name)));
  EXPECT_THAT(
      [&] {
        exchange_segments(segment_of(0), 0, 2, board, Deadline::in(std::chrono::milliseconds(50)));
      },
      ThrowsMessage<PeerError>(AllOf(HasSubstr("rank 1 did not"), HasSubstr("50 ms"))));
}

// The notice of a rank that is there, but for its version.
class ShmHandOverVersion : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Versions, ShmHandOverVersion,
                         ::testing::Values(0, 2, kVersion - 1, kVersion + 1));

TEST_P(ShmHandOverVersion, ThatIsAnotherIsAPeerErrorThatNamesTheRank) {
  FolderBoard board;
  const auto listener = listen_unix(1);
  const std::string text = notice_text(notice_with(listener.name));
  board.post(notice_key(1), std::to_string(GetParam()) + text.substr(text.find('\n')));
  EXPECT_THAT(
      [&] { exchange_segments(segment_of(0), 0, 2, board, Deadline::in(std::chrono::seconds(1))); },
      ThrowsMessage<PeerError>(
          AllOf(HasSubstr("rank 1 speaks another version of the protocol than this one (" +
                          std::to_string(kVersion) + ")"))));
}

class ShmHandOverNotice : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Texts, ShmHandOverNotice,
                         ::testing::Values("", "garbage", "\n\n\n\n\n",
                                           std::to_string(kVersion) + "\n"));

TEST_P(ShmHandOverNotice, OfAnotherFormIsAPeerErrorThatNamesTheRank) {
  FolderBoard board;
  board.post(notice_key(1), GetParam());
  EXPECT_THAT([&] { exchange_segments(segment_of(0), 0, 2, board, soon()); },
              ThrowsMessage<PeerError>(AllOf(HasSubstr("rank 1"), HasSubstr("another version"))));
}

void write(int socket, const std::string& message) {
  ASSERT_EQ(::write(socket, message.data(), message.size()), static_cast<ssize_t>(message.size()));
}

// What a rank that was called sends first: its own segment.
std::optional<Parcel> answer_on(int socket) {
  pollfd entry{.fd = socket, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, soon().poll_timeout()) == 1 ? receive_with_fd(socket, 64) : std::nullopt;
}

// Strangers call rank 0 before rank 1 does; then the group must form all the same.
class ShmHandOverStranger : public ::testing::Test {
 protected:
  FolderBoard board_;
  std::vector<UniqueFd> sockets_;  // Open until the group has formed.
  Process zero_{[this] {
    const auto ring = exchange_segments(segment_of(0), 0, 2, board_, soon());
    EXPECT_EQ(ring.segments[1].data()[0], std::byte{2});
  }};
  Process one_{[this] {
    board_.read("go", soon());
    const auto ring = exchange_segments(segment_of(1), 1, 2, board_, soon());
    EXPECT_EQ(ring.segments[0].data()[0], std::byte{1});
  }};
  Notice notice_ = notice_of(board_, 0);
  Segment segment_ = segment_of(9);

  UniqueFd& call() { return sockets_.emplace_back(connect_unix(notice_.socket, soon())); }
  void send(const std::string& message) {
    ASSERT_EQ(send_with_fd(call().get(), message, segment_.fd()), Sent::kSent);
  }
  void TearDown() override { board_.post("go", ""); }
};

TEST_F(ShmHandOverStranger, ThatGoesAgainIsTurnedAway) {
  for (int i = 0; i < 5; ++i) {
    call().reset();
  }
}

TEST_F(ShmHandOverStranger, ThatSaysNothingIsTurnedAway) { call(); }

TEST_F(ShmHandOverStranger, ThatSendsGarbageIsTurnedAway) {
  send("x");
  send(std::string(48, '\0'));
  send(std::string(48, '\xff'));
  send(std::string(5000, 'x'));
}

TEST_F(ShmHandOverStranger, ThatKnowsTheSecretAndSaysNoMoreIsNotWaitedFor) {
  write(call().get(), hello(1, notice_.secret));
}

TEST_F(ShmHandOverStranger, ThatSendsNoDescriptorIsTurnedAway) {
  const int socket = call().get();
  write(socket, hello(1, notice_.secret));
  write(socket, hello(1, notice_.secret));  // Where its descriptor is due.
}

TEST_F(ShmHandOverStranger, ThatDoesNotKnowTheSecretIsTurnedAway) {
  send(hello(1, std::string(32, '0')));
  send(hello(1, ""));
  auto almost = notice_.secret;
  almost.back() = almost.back() == '0' ? '1' : '0';
  send(hello(1, almost));
}

TEST_F(ShmHandOverStranger, ThatKnowsTheSecretAndIsNoRankIsTurnedAway) {
  for (const std::uint32_t rank : {0U, 2U, 1024U, 0x7fffffffU, 0xffffffffU}) {
    send(hello(rank, notice_.secret));
  }
}

TEST_F(ShmHandOverStranger, OfAnotherVersionIsTurnedAway) {
  send(hello(1, notice_.secret, kVersion + 1));
}

TEST(ShmHandOver, ARankThatHandsOverSomethingElseIsNamed) {
  FolderBoard board;
  Process zero([&] {
    EXPECT_THAT([&] { exchange_segments(segment_of(0), 0, 2, board, soon()); },
                ThrowsMessage<PeerError>(
                    AllOf(HasSubstr("rank 1 (pid "), HasSubstr("no sealed memory segment"))));
  });
  const auto notice = notice_of(board, 0);
  board.post(notice_key(1), notice_text(notice_with("socket")));
  const auto socket = connect_unix(notice.socket, soon());
  write(socket.get(), hello(1, notice.secret));
  ASSERT_TRUE(answer_on(socket.get()));
  EXPECT_EQ(send_with_fd(socket.get(), hello(1, notice.secret), 0), Sent::kSent);
  EXPECT_EQ(zero.status(), 0);
}

// Ordinary users' processes on a busy machine take their time.
Deadline in_a_while() { return Deadline::in(std::chrono::seconds(240)); }

// Ranks of an ordinary user that may have `files` descriptors each form `groups` groups, all at the
// same time. The kernel lets that user have as many in flight, over all of its processes.
void form_groups(int ranks, int groups, rlim_t files) {
  std::vector<FolderBoard> boards(static_cast<std::size_t>(groups));
  std::vector<std::unique_ptr<Process>> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    processes.push_back(std::make_unique<Process>([&, rank] {
      const rlimit limit{.rlim_cur = files, .rlim_max = files};
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
      ASSERT_TRUE(testing::become_ordinary_user());
      auto options = testing::small_options();
      options.arena_bytes = std::size_t{1} << 20;
      std::vector<std::unique_ptr<Team>> teams(boards.size());
      std::vector<std::thread> threads;
      for (std::size_t i = 0; i < boards.size(); ++i) {
        threads.emplace_back([&, i] {
          EXPECT_NO_THROW(teams[i] = Team::join(rank, ranks, boards[i], in_a_while(), options));
        });
      }
      for (auto& thread : threads) {
        thread.join();
      }
      for (const auto& team : teams) {
        ASSERT_TRUE(team);
        std::vector<std::int32_t> values(10, rank + 1);
        all_reduce(*team, testing::tensor_of(values),
                   {.reduction = {DType::kInt32, ReduceOp::kSum}}, in_a_while());
        EXPECT_EQ(values[9], ranks * (ranks + 1) / 2);
      }
    }));
  }
}

TEST(ShmHandOverOfAnOrdinaryUser, SixtyFourRanksMeetWithTheUsualLimitOfDescriptors) {
  form_groups(64, 1, 1024);
}

TEST(ShmHandOverOfAnOrdinaryUser, SeveralGroupsOfManyRanksMeetAtOnce) { form_groups(32, 4, 1024); }

// More calls are open at once than may be in flight.
TEST(ShmHandOverOfAnOrdinaryUser, RanksWaitUntilOthersDescriptorsHaveArrived) {
  form_groups(32, 1, 64);
}

TEST(ShmHandOverOfAnOrdinaryUser, WhatOthersLeaveInFlightIsAnErrorThatSaysSo) {
  FolderBoard board;
  std::vector<std::unique_ptr<Process>> processes;
  for (int rank = 0; rank < 2; ++rank) {
    processes.push_back(std::make_unique<Process>([&, rank] {
      const rlimit limit{.rlim_cur = 30, .rlim_max = 30};
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
      ASSERT_TRUE(testing::become_ordinary_user());
      std::array<int, 2> ends{};
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()), 0);
      while (send_with_fd(ends[0], "x", 0) == Sent::kSent) {
      }
      board.post("full/" + std::to_string(rank), "");
      board.read("full/" + std::to_string(1 - rank), soon());
      // Rank 0 is to send first; its error ends the connection of the other.
      try {
        const Deadline deadline = Deadline::in(std::chrono::seconds(rank == 0 ? 1 : 60));
        exchange_segments(segment_of(rank), rank, 2, board, deadline);
        ADD_FAILURE() << "the group was formed";
      } catch (const IoError& error) {
        EXPECT_EQ(rank, 0);
        EXPECT_THAT(error.what(), AllOf(HasSubstr("at most 30"), HasSubstr("ulimit -n")));
      } catch (const PeerError& error) {
        EXPECT_EQ(rank, 1);
      }
    }));
  }
}

}  // namespace
}  // namespace lockstep::shm
