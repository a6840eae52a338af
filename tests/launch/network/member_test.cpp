#include "lockstep/launch/network/member.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include "lockstep/base/error.h"
#include "tests/launch/job.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class MemberTest : public ::testing::Test {
 protected:
  MemberTest() {
    listener_ = listen_on({"127.0.0.1", 0});
    context_.options.nodes.count = 2;
    context_.options.nodes.rank = 1;
    context_.options.nodes.endpoint = {"127.0.0.1", listener_.port};
    context_.options.nodes.join_timeout = std::chrono::seconds(5);
  }

  // What the leader hears next.
  static Message hear(Channel& leader) {
    const Deadline deadline = Deadline::in(std::chrono::seconds(20));
    std::vector<Message> received;
    while (received.empty() && !deadline.passed()) {
      received = leader.receive();
    }
    return received.at(0);
  }

  // Connects the member and returns the leader's end, past the introduction.
  Channel lead(Member& member) {
    member.on_time();
    Channel leader(UniqueFd(::accept(listener_.fd.get(), nullptr, nullptr)));
    EXPECT_EQ(std::get<Join>(hear(leader)).node_rank, 1);
    return leader;
  }

  // The leader's end of the member's next try.
  Channel accept_again(Member& member) {
    const Deadline deadline = Deadline::in(std::chrono::seconds(10));
    pollfd waiting{listener_.fd.get(), POLLIN, 0};
    while (::poll(&waiting, 1, 0) == 0 && !deadline.passed()) {
      loop_.run_once(Deadline::in(std::chrono::milliseconds(5)));
      member.on_time();
    }
    if (deadline.passed()) {
      throw PeerError("it did not try again");
    }
    return Channel(UniqueFd(::accept(listener_.fd.get(), nullptr, nullptr)));
  }

  std::vector<Message> commands(Member& member) {
    std::vector<Message> found;
    const Deadline deadline = Deadline::in(std::chrono::seconds(5));
    while (found.empty() && !deadline.passed()) {
      loop_.run_once(Deadline::in(std::chrono::milliseconds(5)));
      member.on_time();
      found = member.take_commands();
    }
    return found;
  }

  Start start() const {
    Start start = start_command();
    start.plan.nodes = {{"hosta", 1, ""}, {"testhost", 1, ""}};
    start.node_rank = 1;
    return start;
  }

  test::TemporaryFolder folder_;
  Signals signals_{{SIGTERM}};
  Context context_ = shell_context(folder_, signals_, "");
  EventLoop loop_;
  Listener listener_;
};

TEST_F(MemberTest, ObeysAndReports) {
  Member member(context_, loop_);
  Channel leader = lead(member);
  leader.send(start());
  EXPECT_TRUE(std::holds_alternative<Start>(commands(member).at(0)));
  member.report(Done{0});
  EXPECT_TRUE(std::holds_alternative<Done>(hear(leader)));
  leader.send(End{3, "text"});
  EXPECT_EQ(std::get<End>(commands(member).at(0)).exit_code, 3);
}

TEST_F(MemberTest, ALostLeaderIsNamedAfterTheWorkersHaveStopped) {
  Member member(context_, loop_);
  {
    Channel leader = lead(member);
    leader.send(start());
    commands(member);
  }
  const auto stop = commands(member);
  ASSERT_THAT(stop, SizeIs(1));
  EXPECT_EQ(std::get<Stop>(stop[0]).signal, SIGTERM);
  member.report(Stopped{0, {}, ""});
  const End end = std::get<End>(member.take_commands().at(0));
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.text, HasSubstr("node 0 'hosta' is lost: its launcher closed the connection"));
}

TEST_F(MemberTest, ALeaderThatDiesBeforeTheJobStartsIsTriedAgain) {
  Member member(context_, loop_);
  member.on_time();
  UniqueFd(::accept(listener_.fd.get(), nullptr, nullptr)).reset();  // Gone without a greeting.
  {
    const Channel dying = accept_again(member);
  }  // And with one.
  Channel leader = accept_again(member);
  leader.send(start());
  EXPECT_TRUE(std::holds_alternative<Start>(commands(member).at(0)));
}

TEST_F(MemberTest, ALeaderWhoseJobIsEndingIsTriedAgain) {
  Member member(context_, loop_);
  Channel dying = lead(member);
  dying.send(Refused{"the job is about to end", true});
  Channel leader = accept_again(member);
  leader.send(start());
  EXPECT_TRUE(std::holds_alternative<Start>(commands(member).at(0)));
}

// Each try to connect takes a second.
TEST_F(MemberTest, ALeaderThatIsLateIsToldOnce) {
  context_.options.nodes.join_timeout = std::chrono::seconds(3);
  listener_ = {};
  std::vector<std::string> said;
  Member member(context_, loop_, [&](const std::string& line) { said.push_back(line); });
  member.on_time();
  EXPECT_THAT(said, SizeIs(0)) << "it may only be slow";
  member.on_time();
  member.on_time();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_THAT(said[0],
              AllOf(HasSubstr("the leading node at 127.0.0.1:"), HasSubstr("has not come yet (")));
}

TEST_F(MemberTest, ALeaderThatDoesNotComeBackIsNamedWithTheReason) {
  context_.options.nodes.join_timeout = std::chrono::milliseconds(1);
  Member member(context_, loop_);
  lead(member).send(Refused{"the job is about to end", true});
  listener_ = {};
  EXPECT_THAT(std::get<End>(commands(member).at(0)).text, HasSubstr("did not come within 1 ms"));
}

TEST_F(MemberTest, AnEndpointThatAcceptsAndClosesIsNotTriedForEver) {
  context_.options.nodes.join_timeout = std::chrono::milliseconds(500);
  Member member(context_, loop_);
  std::vector<Message> found;
  int accepted = 0;
  const Deadline deadline = Deadline::in(std::chrono::seconds(10));
  while (found.empty() && !deadline.passed()) {
    member.on_time();
    pollfd waiting{listener_.fd.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 0) == 1) {
      UniqueFd(::accept(listener_.fd.get(), nullptr, nullptr)).reset();
      ++accepted;
    }
    loop_.run_once(Deadline::in(std::chrono::milliseconds(5)));
    found = member.take_commands();
  }
  EXPECT_GT(accepted, 1);
  ASSERT_THAT(found, SizeIs(1)) << "still trying after " << accepted << " connections";
  EXPECT_THAT(std::get<End>(found[0]).text, HasSubstr("did not come within 500 ms"));
}

TEST_F(MemberTest, HeartbeatsComeWhileTheMemberIsBusy) {
  Member member(context_, loop_);
  const Channel leader = lead(member);
  pollfd waiting{leader.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 10000), 1) << "no sign of life from a member that is busy";
}

TEST_F(MemberTest, WhyItCannotGoOnIsToldToTheLeader) {
  Member member(context_, loop_);
  Channel leader = lead(member);
  member.give_up("out of luck");
  EXPECT_EQ(std::get<Unable>(hear(leader)).why, "out of luck");
}

TEST_F(MemberTest, ARefusalIsPassedOn) {
  Member member(context_, loop_);
  Channel leader = lead(member);
  leader.send(Refused{"because"});
  EXPECT_THAT(std::get<End>(commands(member).at(0)).text, HasSubstr("because"));
}

TEST_F(MemberTest, AnotherProgramAtTheEndpointIsNoLeader) {
  Member member(context_, loop_);
  member.on_time();
  const UniqueFd other(::accept(listener_.fd.get(), nullptr, nullptr));
  write_all(other.get(), "220 ready\r\n");
  EXPECT_THAT(std::get<End>(commands(member).at(0)).text, HasSubstr("is no launcher of this job"));
}

TEST_F(MemberTest, ALeaderThatNeverComesIsNamed) {
  context_.options.nodes.join_timeout = std::chrono::milliseconds(1);
  listener_ = {};
  Member member(context_, loop_);
  const End end = std::get<End>(commands(member).at(0));
  EXPECT_THAT(end.text, HasSubstr(to_text(context_.options.nodes.endpoint)));
  EXPECT_THAT(end.text, HasSubstr("did not come"));
}

TEST_F(MemberTest, AnInterruptBeforeTheJobStartsEndsIt) {
  Member member(context_, loop_);
  member.report(Interrupted{SIGINT});
  EXPECT_EQ(std::get<End>(member.take_commands().at(0)).exit_code, 130);
}

}  // namespace
}  // namespace lockstep::launch
