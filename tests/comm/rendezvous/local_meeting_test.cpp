#include "lockstep/comm/rendezvous/local_meeting.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <thread>

#include "lockstep/base/error.h"
#include "tests/support/soon.h"

namespace lockstep::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::soon;
using ::testing::ThrowsMessage;

std::string own_name(const char* suffix) { return std::to_string(::getpid()) + suffix; }

TEST(LocalMeeting, EveryRankLearnsThePort) {
  const auto name = own_name("port");
  auto meeting = LocalMeeting::open(name);
  std::vector<std::thread> ranks;
  std::vector<int> ports(3);
  for (int rank = 1; rank <= 2; ++rank) {
    ranks.emplace_back([&, rank] { ports[rank] = LocalMeeting::ask(name, rank, soon()); });
  }
  meeting.announce(4711, 3, soon());
  for (auto& rank : ranks) {
    rank.join();
  }
  EXPECT_EQ(ports[1], 4711);
  EXPECT_EQ(ports[2], 4711);
}

TEST(LocalMeeting, NamesExactlyTheRanksThatDidNotCome) {
  const auto name = own_name("missing");
  auto meeting = LocalMeeting::open(name);
  std::thread present([&] { LocalMeeting::ask(name, 2, soon()); });
  EXPECT_THAT([&] { meeting.announce(1, 5, Deadline::in(std::chrono::milliseconds(300))); },
              ThrowsMessage<PeerError>(AllOf(HasSubstr("ranks 1, 3, 4"), HasSubstr("300 ms"))));
  present.join();
}

TEST(LocalMeeting, AskingWithoutRankZeroEndsAtTheDeadline) {
  EXPECT_THAT(
      [] { LocalMeeting::ask(own_name("nobody"), 1, Deadline::in(std::chrono::milliseconds(50))); },
      ThrowsMessage<PeerError>(AllOf(HasSubstr("rank 1"), HasSubstr("rank 0"))));
}

TEST(LocalMeeting, ASecondJobOfTheSameNameIsRefused) {
  const auto first = LocalMeeting::open(own_name("twice"));
  EXPECT_THAT([] { LocalMeeting::open(own_name("twice")); },
              ThrowsMessage<UsageError>(HasSubstr("started twice")));
}

TEST(LocalMeeting, TheNameIsFreeAgainAfterwards) {
  {
    const auto first = LocalMeeting::open(own_name("again"));
  }
  EXPECT_NO_THROW(LocalMeeting::open(own_name("again")));
}

}  // namespace
}  // namespace lockstep::comm
