#include "lockstep/launch/message.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

template <class T>
T round_trip(const T& message) {
  return std::get<T>(decode(encode(message)));
}

Failure full_failure() {
  Failure failure;
  failure.rank = 5;
  failure.local_rank = 1;
  failure.node_rank = 2;
  failure.host = "h";
  failure.pid = 77;
  failure.signal = 9;
  failure.stopped_by_us = true;
  failure.message = "m";
  failure.traceback = "t";
  failure.stderr_tail = "s\n\"quoted\"";
  failure.log_path = "/l";
  return failure;
}

TEST(Message, JoinSurvivesTheTrip) {
  const Join join = round_trip(Join{"id", 4, -1, {"h", 3, "r"}, 12});
  EXPECT_EQ(join.run_id, "id");
  EXPECT_EQ(join.nodes, 4);
  EXPECT_EQ(join.node_rank, -1);
  EXPECT_EQ(join.node.host, "h");
  EXPECT_EQ(join.node.workers, 3);
  EXPECT_EQ(join.node.role, "r");
  EXPECT_EQ(join.pid, 12);
}

TEST(Message, StartSurvivesTheTrip) {
  Start start;
  start.plan.run_id = "id";
  start.plan.nodes = {{"a", 1, "x"}, {"b", 2, "y"}};
  start.plan.master_addr = "m";
  start.plan.master_port = 5;
  start.plan.attempt = 2;
  start.plan.max_restarts = 3;
  start.node_rank = 1;
  start.why = "w";
  const Start again = round_trip(start);
  EXPECT_EQ(again.plan.nodes[1].host, "b");
  EXPECT_EQ(again.plan.nodes[1].workers, 2);
  EXPECT_EQ(again.plan.master_addr, "m");
  EXPECT_EQ(again.plan.master_port, 5);
  EXPECT_EQ(again.plan.attempt, 2);
  EXPECT_EQ(again.plan.max_restarts, 3);
  EXPECT_EQ(again.node_rank, 1);
  EXPECT_EQ(again.why, "w");
}

TEST(Message, FailuresSurviveTheTrip) {
  const Failure again = round_trip(Failed{1, full_failure()}).failure;
  EXPECT_EQ(again.rank, 5);
  EXPECT_EQ(again.signal, 9);
  EXPECT_TRUE(again.stopped_by_us);
  EXPECT_EQ(again.stderr_tail, "s\n\"quoted\"");
  EXPECT_EQ(again.log_path, "/l");
}

TEST(Message, SmallOnesSurviveTheTrip) {
  EXPECT_EQ(round_trip(Refused{"r"}).reason, "r");
  EXPECT_EQ(round_trip(Stop{3, 15}).signal, 15);
  EXPECT_EQ(round_trip(Done{3}).attempt, 3);
  EXPECT_EQ(round_trip(Interrupted{2}).signal, 2);
  EXPECT_EQ(round_trip(End{137, "t"}).exit_code, 137);
  round_trip(Heartbeat{});
}

TEST(Message, IsNeverTooLongForAFrame) {
  Failure huge = full_failure();
  huge.message = huge.traceback = huge.stderr_tail = std::string(10000, '\xff');
  huge.log_path = std::string(10000, '"');
  huge.host = std::string(10000, 'h');
  const Stopped stopped{0, std::vector<Failure>(100, huge)};
  EXPECT_LE(encode(stopped).size(), kMostMessageBytes);
  EXPECT_THAT(round_trip(stopped).failures, SizeIs(16));
  EXPECT_LE(encode(End{1, std::string(1 << 20, 'x')}).size(), kMostMessageBytes);
  Start start;
  start.plan.master_port = 1;
  start.plan.nodes.assign(256, {std::string(300, 'h'), 1, std::string(300, 'r')});
  EXPECT_LE(encode(start).size(), kMostMessageBytes);
}

TEST(Message, GarbageIsAPeerError) {
  for (const char* text : {"", "null", "[]", "{}", R"({"type": 1})", R"({"type": "nope"})",
                           R"({"type": "stop"})", R"({"type": "stop", "attempt": 0, "signal": 0})",
                           R"({"type": "stop", "attempt": 0.5, "signal": 1})",
                           R"({"type": "stop", "attempt": 99999999999999999999, "signal": 1})",
                           R"({"type": "end", "exit_code": -1, "text": ""})",
                           R"({"type": "stopped", "attempt": 0, "failures": [1]})"}) {
    EXPECT_THROW(decode(text), PeerError) << text;
  }
}

TEST(Message, NodeRankMustBePartOfThePlan) {
  EXPECT_THAT(
      [] {
        decode(R"({"type": "start", "node_rank": 1, "why": "", "plan": {"run_id": "", "nodes":
               [{"host": "", "workers": 1, "role": ""}], "master_addr": "", "master_port": 1,
               "attempt": 0, "max_restarts": 0}})");
      },
      ThrowsMessage<PeerError>(HasSubstr("'node_rank' is out of range")));
}

}  // namespace
}  // namespace lockstep::launch
