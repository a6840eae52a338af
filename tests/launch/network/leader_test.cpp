#include "lockstep/launch/network/leader.h"

#include <gmock/gmock.h>

#include "tests/launch/job.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

class LeaderTest : public ::testing::Test {
 protected:
  test::TemporaryFolder folder_;
  TestConsoles consoles_{folder_};
  Signals signals_{{SIGTERM}};
  Context context_ = shell_context(folder_, signals_, "");
  EventLoop loop_;
};

TEST_F(LeaderTest, OneNodeIsToldToStartAtOnce) {
  Leader leader(context_, loop_, consoles_.get(), std::nullopt);
  EXPECT_FALSE(leader.timed());
  const auto commands = leader.take_commands();
  ASSERT_THAT(commands, SizeIs(1));
  EXPECT_GT(std::get<Start>(commands[0]).plan.master_port, 0);
  leader.report(Done{0});
  EXPECT_EQ(std::get<End>(leader.take_commands().at(0)).exit_code, 0);
}

TEST_F(LeaderTest, OtherNodesAreServedOverTheirConnections) {
  context_.options.nodes.count = 2;
  Listener listener = listen_on({"127.0.0.1", 0});
  const Endpoint endpoint{"127.0.0.1", listener.port};
  context_.options.nodes.endpoint = endpoint;
  Leader leader(context_, loop_, consoles_.get(), std::move(listener));
  EXPECT_TRUE(leader.timed());
  Channel member(connect_to(endpoint, Deadline::in(std::chrono::seconds(5))));
  Join join = introduce(context_);
  join.node_rank = 1;
  member.send(join);
  std::vector<Message> commands;
  std::vector<Message> received;
  const Deadline deadline = Deadline::in(std::chrono::seconds(5));
  while ((commands.empty() || received.empty()) && !deadline.passed()) {
    loop_.run_once(Deadline::in(std::chrono::milliseconds(5)));
    leader.on_time();
    for (auto& command : leader.take_commands()) {
      commands.push_back(command);
    }
    for (auto& message : member.receive()) {
      received.push_back(message);
    }
  }
  ASSERT_THAT(commands, SizeIs(1));
  ASSERT_THAT(received, SizeIs(1));
  EXPECT_EQ(std::get<Start>(received[0]).node_rank, 1);
  EXPECT_NE(std::get<Start>(received[0]).plan.master_port, endpoint.port);
}

TEST_F(LeaderTest, TheDeathOfTheStoreStopsTheJob) {
  context_.store_program = "/bin/true";
  Leader leader(context_, loop_, consoles_.get(), std::nullopt);
  leader.take_commands();
  int status = 0;
  const pid_t store = ::waitpid(-1, &status, 0);
  leader.on_exits({{store, status}});
  const auto commands = leader.take_commands();
  ASSERT_THAT(commands, SizeIs(1));
  EXPECT_EQ(std::get<Stop>(commands[0]).signal, SIGTERM);
  leader.report(Stopped{0, {}, ""});
  EXPECT_THAT(std::get<End>(leader.take_commands().at(0)).text,
              HasSubstr("the store process of the job died: pid " + std::to_string(store)));
}

TEST_F(LeaderTest, SweepingLeavesNoDescendant) {
  Leader leader(context_, loop_, consoles_.get(), std::nullopt);
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  leader.sweep();
  EXPECT_EQ(::waitpid(child, nullptr, 0), -1) << "it is gone and reaped";
}

TEST_F(LeaderTest, IntroductionSaysWhoWeAre) {
  context_.options.nodes.count = 4;
  context_.options.nodes.rank = std::nullopt;
  context_.options.workers = 3;
  const Join join = introduce(context_);
  EXPECT_EQ(join.nodes, 4);
  EXPECT_EQ(join.node_rank, -1);
  EXPECT_EQ(join.node.workers, 3);
  EXPECT_EQ(join.node.host, "testhost");
  EXPECT_EQ(join.run_id, "test");
}

TEST_F(LeaderTest, NodesThatAreLateAreNamedOnce) {
  context_.options.nodes.count = 3;
  context_.options.nodes.rank = 0;
  context_.options.nodes.join_timeout = std::chrono::milliseconds(2);
  const auto say = [&](const std::string& found_by) {
    context_.options.nodes.found_by = found_by;
    Leader leader(context_, loop_, consoles_.get(), listen_on({"127.0.0.1", 0}));
    const Deadline late = Deadline::in(std::chrono::milliseconds(2));
    while (!late.passed()) {
    }
    leader.on_time();
    leader.on_time();
  };
  const std::string line =
      "lockstep run: still waiting for nodes 1, 2 of 3 after 1 ms, up to 2 ms (--join-timeout)";
  say("");
  EXPECT_EQ(consoles_.err(), line + "\n");
  say("Slurm step 17.0");
  EXPECT_THAT(consoles_.err(), StartsWith(line + "\n" + line + "\nHINT: Slurm step 17.0 told of"));
  EXPECT_THAT(consoles_.err(), HasSubstr("--standalone"));
}

}  // namespace
}  // namespace lockstep::launch
