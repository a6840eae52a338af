#include "lockstep/launch/protocol/message.h"

#include <gmock/gmock.h>

#include "lockstep/launch/protocol/frame.h"

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
  EXPECT_EQ(round_trip(Stop{3, 0}).signal, 0);
  EXPECT_EQ(round_trip(Done{3}).attempt, 3);
  EXPECT_EQ(round_trip(Noticed{3}).attempt, 3);
  EXPECT_EQ(round_trip(Interrupted{2}).signal, 2);
  EXPECT_TRUE(round_trip(Refused{"r", true}).ending);
  EXPECT_EQ(round_trip(Unable{2, "w"}).attempt, 2);
  EXPECT_EQ(round_trip(Unable{2, "w"}).why, "w");
  EXPECT_EQ(round_trip(Stopped{2, {}, "s"}).stuck, "s");
  EXPECT_EQ(round_trip(End{137, "t"}).exit_code, 137);
  EXPECT_FALSE(round_trip(End{137, "t"}).root_cause);
  EXPECT_EQ(round_trip(End{3, "t", full_failure()}).root_cause->pid, 77);
  round_trip(Heartbeat{});
}

// JSON writes these in one, two, three and six bytes.
class MessageOfLongTexts : public ::testing::TestWithParam<char> {
 protected:
  std::string text_ = std::string(std::size_t{1} << 20, GetParam());
};
INSTANTIATE_TEST_SUITE_P(Characters, MessageOfLongTexts,
                         ::testing::Values('x', '"', '\xff', '\x01'));

TEST_P(MessageOfLongTexts, IsNeverTooLongForAFrame) {
  Failure huge = full_failure();
  huge.message = huge.traceback = huge.stderr_tail = huge.log_path = huge.host = text_;
  const Stopped stopped{0, std::vector<Failure>(20, huge), text_};  // 5 MiB each.
  EXPECT_LE(encode(stopped).size(), kMostMessageBytes);
  EXPECT_THAT(round_trip(stopped).failures, SizeIs(16));
  EXPECT_LE(encode(End{1, text_, huge}).size(), kMostMessageBytes);
  EXPECT_LE(encode(Failed{0, huge}).size(), kMostMessageBytes);
  EXPECT_LE(encode(Refused{text_}).size(), kMostMessageBytes);
  EXPECT_LE(encode(Unable{0, text_}).size(), kMostMessageBytes);
  EXPECT_LE(encode(Join{text_, 2, 1, {text_, 1, text_}, 1}).size(), kMostMessageBytes);
  Start start;
  start.why = start.plan.run_id = start.plan.master_addr = text_;
  start.plan.master_port = 1;
  const std::string name = text_.substr(0, std::size_t{1} << 14);  // Times all nodes: 32 MiB.
  start.plan.nodes.assign(kMostNodes, {name, 1, name});
  EXPECT_LE(encode(start).size(), kMostMessageBytes);
  EXPECT_THAT(round_trip(start).plan.nodes, SizeIs(kMostNodes));
}

TEST(Message, TextsFromOtherNodesComeWithoutControlCharacters) {
  const std::string rude = "a\x1b[2J\nb\x07\tc\xc2\x9b";
  Failure failure = full_failure();
  failure.host = failure.log_path = failure.message = failure.traceback = failure.stderr_tail =
      rude;
  const Failure read = round_trip(Failed{0, failure}).failure;
  for (const std::string& name : {read.host, read.log_path}) {
    EXPECT_EQ(name, "a[2Jb\tc") << "a name has one line";
  }
  for (const std::string& text :
       {read.message, read.traceback, read.stderr_tail, round_trip(End{1, rude}).text,
        round_trip(Refused{rude}).reason, round_trip(Unable{0, rude}).why,
        round_trip(Stopped{0, {}, rude}).stuck}) {
    EXPECT_EQ(text, "a[2J\nb\tc");
  }
  const Join join = round_trip(Join{rude, 2, 1, {rude, 1, rude}, 1});
  for (const std::string& name : {join.run_id, join.node.host, join.node.role}) {
    EXPECT_EQ(name, "a[2Jb\tc");
  }
}

TEST(Message, GarbageIsAPeerError) {
  for (const char* text : {"", "null", "[]", "{}", R"({"type": 1})", R"({"type": "nope"})",
                           R"({"type": "stop"})", R"({"type": "stop", "attempt": 0, "signal": -1})",
                           R"({"type": "stop", "attempt": 0.5, "signal": 1})",
                           R"({"type": "stop", "attempt": 99999999999999999999, "signal": 1})",
                           R"({"type": "end", "exit_code": -1, "text": ""})",
                           R"({"type": "stopped", "attempt": 0, "failures": [1]})"}) {
    EXPECT_THROW(decode(text), ProtocolError) << text;
  }
}

TEST(Message, NodeRankMustBePartOfThePlan) {
  EXPECT_THAT(
      [] {
        decode(R"({"type": "start", "node_rank": 1, "why": "", "plan": {"run_id": "", "nodes":
               [{"host": "", "workers": 1, "role": ""}], "master_addr": "", "master_port": 1,
               "attempt": 0, "max_restarts": 0}})");
      },
      ThrowsMessage<ProtocolError>(HasSubstr("'node_rank' is out of range")));
}

}  // namespace
}  // namespace lockstep::launch
