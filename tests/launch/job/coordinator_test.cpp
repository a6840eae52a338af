#include "lockstep/launch/job/coordinator.h"

#include <gmock/gmock.h>

#include <csignal>

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

Join node(const std::string& host, int rank, int nodes) {
  return {"job", nodes, rank, {host, 2, "default"}, 1};
}

Failure failure_on(int rank, int node_rank, int exit_code = 3) {
  Failure failure;
  failure.rank = rank;
  failure.node_rank = node_rank;
  failure.host = "host" + std::to_string(node_rank);
  failure.exit_code = exit_code;
  return failure;
}

// A coordinator with `nodes` nodes; the others join as peers 1, 2, ...
class Job {
 public:
  explicit Job(int nodes, int max_restarts = 0,
               std::chrono::milliseconds notice_lasts = std::chrono::hours(1))
      : coordinator_(settings(nodes, max_restarts, notice_lasts),
                     [this] { return 1000 + ++stores_; }) {
    coordinator_.begin();
    for (int rank = 1; rank < nodes; ++rank) {
      coordinator_.on_message(rank, node("host" + std::to_string(rank), rank, nodes));
    }
  }

  static JobSettings settings(int nodes, int max_restarts,
                              std::chrono::milliseconds notice_lasts = std::chrono::hours(1)) {
    JobSettings settings;
    settings.leader = node("host0", 0, nodes);
    settings.master_addr = "addr";
    settings.max_restarts = max_restarts;
    settings.final_codes = {64};
    settings.notice_lasts = notice_lasts;
    settings.join_timeout = std::chrono::hours(1);
    settings.stop_timeout = std::chrono::hours(1);
    return settings;
  }

  Coordinator& operator*() { return coordinator_; }
  Coordinator* operator->() { return &coordinator_; }

  // The messages of one kind that wait to be sent, by peer.
  template <class T>
  std::map<PeerId, T> sent() {
    std::map<PeerId, T> found;
    for (const auto& [peer, message] : coordinator_.take_outgoing()) {
      if (const T* wanted = std::get_if<T>(&message)) {
        found[peer] = *wanted;
      }
    }
    return found;
  }

  [[nodiscard]] int stores() const { return stores_; }

 private:
  int stores_ = 0;
  Coordinator coordinator_;
};

TEST(Coordinator, OneNodeStartsAtOnceAndEndsWhenItIsDone) {
  Job job(1);
  const auto started = job.sent<Start>();
  ASSERT_THAT(started, SizeIs(1));
  EXPECT_EQ(started.at(kLocalPeer).plan.master_port, 1001);
  job->on_message(kLocalPeer, Done{0});
  EXPECT_EQ(job.sent<End>().at(kLocalPeer).exit_code, 0);
  EXPECT_TRUE(job->ended());
}

TEST(Coordinator, StartsWhenTheLastNodeHasJoined) {
  Job job(3);
  const auto started = job.sent<Start>();
  ASSERT_THAT(started, SizeIs(3));
  for (const auto& [peer, start] : started) {
    EXPECT_EQ(start.node_rank, peer);
    EXPECT_EQ(start.plan.nodes[1].host, "host1");
    EXPECT_EQ(world_size(start.plan), 6);
  }
}

TEST(Coordinator, EndsWhenAllNodesAreDone) {
  Job job(2);
  job->on_message(1, Done{0});
  EXPECT_THAT(job.sent<End>(), IsEmpty());
  job->on_message(kLocalPeer, Done{0});
  EXPECT_THAT(job.sent<End>(), SizeIs(2));
}

TEST(Coordinator, AFailureStopsTheOthersAndIsReportedOnce) {
  Job job(2);
  job.sent<Start>();
  job->on_message(1, Failed{0, failure_on(2, 1)});
  const auto stops = job.sent<Stop>();
  ASSERT_THAT(stops, SizeIs(1)) << "the node itself stops its own workers";
  EXPECT_EQ(stops.at(kLocalPeer).signal, SIGTERM);
  job->on_message(kLocalPeer, Stopped{0, {failure_on(0, 0, 9)}, ""});
  Failure full = failure_on(2, 1);
  full.stderr_tail = "the reason";
  job->on_message(1, Stopped{0, {full}, ""});
  const auto ends = job.sent<End>();
  ASSERT_THAT(ends, SizeIs(2));
  EXPECT_THAT(ends.at(kLocalPeer).text, HasSubstr("root cause: rank 2"));
  EXPECT_THAT(ends.at(kLocalPeer).text, HasSubstr("| the reason"));
  EXPECT_EQ(ends.at(1).exit_code, 3);
  EXPECT_EQ(
      ends.at(1).text,
      "lockstep run: the job failed; root cause: rank 2 (local rank 0) on node 1 'host1', pid "
      "0: exit code 3; the report is with node 0 'host0'\n");
  ASSERT_TRUE(ends.at(1).root_cause);
  EXPECT_EQ(ends.at(1).root_cause->stderr_tail, "the reason") << "for an outer launcher";
}

TEST(Coordinator, AReasonOutranksAnEarlierEndWithTheSameCodeAndWithoutOne) {
  Failure reason = failure_on(0, 0, 1);
  reason.message = "the disk is full";
  for (const int code : {1, 5}) {
    Job job(1);
    job->on_message(kLocalPeer, Failed{0, failure_on(1, 0, code)});
    job->on_message(kLocalPeer, Stopped{0, {failure_on(1, 0, code), reason}, ""});
    EXPECT_THAT(job.sent<End>().at(kLocalPeer).text,
                HasSubstr(code == 1 ? "root cause: rank 0" : "root cause: rank 1"));
  }
}

TEST(Coordinator, RestartsTheWholeGroupWithANewStore) {
  Job job(2, 1);
  job.sent<Start>();
  job->on_message(1, Failed{0, failure_on(2, 1)});
  job->on_message(1, Stopped{0, {failure_on(2, 1)}, ""});
  job->on_message(kLocalPeer, Stopped{0, {}, ""});
  const auto started = job.sent<Start>();
  ASSERT_THAT(started, SizeIs(2));
  EXPECT_EQ(started.at(1).plan.attempt, 1);
  EXPECT_EQ(started.at(1).plan.master_port, 1002);
  EXPECT_THAT(started.at(1).why, HasSubstr("rank 2"));
  job->on_message(kLocalPeer, Failed{1, failure_on(0, 0, 4)});
  job->on_message(kLocalPeer, Stopped{1, {failure_on(0, 0, 4)}, ""});
  job->on_message(1, Stopped{1, {}, ""});
  EXPECT_EQ(job.sent<End>().at(1).exit_code, 4) << "no restart is left";
}

TEST(Coordinator, AWorkerThatStoppedInOrderSignalsNobodyAndRestartsNothing) {
  Job job(2, 5);
  job.sent<Start>();
  job->on_message(1, Failed{0, failure_on(2, 1, 75)});
  const auto stops = job.sent<Stop>();
  ASSERT_THAT(stops, SizeIs(1));
  EXPECT_EQ(stops.at(kLocalPeer).signal, 0);
  job->on_message(7, node("host1", 1, 2));
  EXPECT_TRUE(job.sent<Refused>().at(7).ending);
  job->on_message(kLocalPeer, Stopped{0, {failure_on(0, 0, 75)}, ""});
  job->on_message(1, Stopped{0, {failure_on(2, 1, 75)}, ""});
  const auto ends = job.sent<End>();
  ASSERT_THAT(ends, SizeIs(2));
  for (const auto& [peer, end] : ends) {
    EXPECT_EQ(end.exit_code, 75);
    EXPECT_EQ(
        end.text,
        "lockstep run: the job stopped in order: rank 2 (local rank 0) on node 1 'host1', pid "
        "0: exit code 75; nothing is restarted, and the same command goes on\n");
    EXPECT_FALSE(end.root_cause) << "an outer launcher must not tell it as a failure";
  }
}

TEST(Coordinator, NodesThatAreDoneDoNotChangeAStopInOrder) {
  Job job(2, 5);
  job.sent<Start>();
  job->on_message(kLocalPeer, Done{0});
  job->on_message(1, Failed{0, failure_on(2, 1, 75)});
  job->on_message(1, Stopped{0, {failure_on(2, 1, 75)}, ""});
  EXPECT_EQ(job.sent<End>().at(kLocalPeer).exit_code, 75);
}

TEST(Coordinator, WhoFailsDuringAStopInOrderIsNamed) {
  Job job(1, 5);
  job->on_message(kLocalPeer, Failed{0, failure_on(0, 0, 75)});
  Failure late = failure_on(2, 0, 15);
  late.stopped_by_us = true;
  job->on_message(kLocalPeer, Stopped{0, {failure_on(0, 0, 75), failure_on(1, 0, 4), late}, ""});
  const auto end = job.sent<End>().at(kLocalPeer);
  EXPECT_EQ(end.exit_code, 75);
  EXPECT_THAT(end.text, HasSubstr("failed meanwhile:\n  rank 1 (local rank 0) on 'host0', pid 0: "
                                  "exit code 4\nlockstep run: the job stopped in order: rank 0"));
  EXPECT_THAT(end.text, Not(HasSubstr("rank 2")));
}

TEST(Coordinator, AFailureBeforeAStopInOrderIsTheRootCause) {
  Job job(1);
  job->on_message(kLocalPeer, Failed{0, failure_on(1, 0, 4)});
  job->on_message(kLocalPeer, Stopped{0, {failure_on(0, 0, 75), failure_on(1, 0, 4)}, ""});
  EXPECT_EQ(job.sent<End>().at(kLocalPeer).exit_code, 4);
}

TEST(Coordinator, AnInterruptDuringAStopInOrderReachesAllNodes) {
  Job job(2);
  job->on_message(1, Failed{0, failure_on(2, 1, 75)});
  job.sent<Stop>();
  job->on_message(kLocalPeer, Interrupted{SIGINT});
  const auto stops = job.sent<Stop>();
  ASSERT_THAT(stops, SizeIs(2));
  EXPECT_EQ(stops.at(1).signal, SIGINT);
}

TEST(Coordinator, WordsFromAnEarlierAttemptAreIgnored) {
  Job job(2, 1);
  job->on_message(1, Failed{0, failure_on(2, 1)});
  job->on_message(1, Stopped{0, {}, ""});
  job->on_message(kLocalPeer, Stopped{0, {}, ""});
  job.sent<Start>();
  job->on_message(1, Stopped{0, {}, ""});
  job->on_message(1, Failed{0, failure_on(2, 1)});
  job->on_message(1, Done{0});
  EXPECT_THAT(job->take_outgoing(), IsEmpty());
}

TEST(Coordinator, DoneThatCrossesAStopCountsAsStopped) {
  Job job(2);
  job.sent<Start>();
  job->on_message(kLocalPeer, Failed{0, failure_on(0, 0)});
  job->on_message(1, Done{0});
  job->on_message(kLocalPeer, Stopped{0, {failure_on(0, 0)}, ""});
  EXPECT_EQ(job.sent<End>().at(1).exit_code, 3);
}

TEST(Coordinator, ALostNodeIsNamedAndOutranksTheFailuresItCaused) {
  Job job(3, 5);
  job->on_message(kLocalPeer, Failed{0, failure_on(0, 0)});
  job->on_lost(1, "silence");
  job->on_message(kLocalPeer, Stopped{0, {failure_on(0, 0)}, ""});
  job->on_message(2, Stopped{0, {}, ""});
  const auto ends = job.sent<End>();
  ASSERT_THAT(ends, SizeIs(2)) << "the lost node cannot be told";
  EXPECT_EQ(ends.at(2).exit_code, 1);
  EXPECT_THAT(ends.at(2).text, HasSubstr("node 1 'host1' is lost: silence"));
  EXPECT_THAT(ends.at(kLocalPeer).text, HasSubstr("failed meanwhile"));
}

TEST(Coordinator, ANodeLostWhileJoiningEndsTheJob) {
  Coordinator coordinator(Job::settings(3, 0), [] { return 1; });
  coordinator.on_message(1, node("host1", 1, 3));
  coordinator.on_lost(1, "gone");
  EXPECT_TRUE(coordinator.ended());
}

TEST(Coordinator, AnInterruptStopsAllWithTheSameSignalAndNeverRestarts) {
  Job job(2, 5);
  job.sent<Start>();
  job->on_message(1, Interrupted{SIGINT});
  EXPECT_EQ(job.sent<Stop>().at(kLocalPeer).signal, SIGINT);
  job->on_message(1, Stopped{0, {failure_on(2, 1)}, ""});
  job->on_message(kLocalPeer, Stopped{0, {failure_on(0, 0)}, ""});
  const auto end = job.sent<End>().at(kLocalPeer);
  EXPECT_EQ(end.exit_code, 130);
  EXPECT_THAT(end.text, HasSubstr("ended by SIGINT on node 1 'host1'"));
}

// The signal's code would be taken for a stop in order.
TEST(Coordinator, AfterAnInterruptAWorkerThatCouldNotSaveIsTold) {
  Job job(2);
  job.sent<Start>();
  job->on_message(kLocalPeer, Interrupted{SIGTERM});
  job->on_message(1, Stopped{0, {failure_on(2, 1, 143)}, ""});
  job->on_message(kLocalPeer, Stopped{0, {failure_on(0, 0, 74)}, ""});
  const auto end = job.sent<End>().at(kLocalPeer);
  EXPECT_EQ(end.exit_code, 74);
  EXPECT_THAT(end.text, HasSubstr("ended by SIGTERM"));
  EXPECT_THAT(end.text, HasSubstr("could not save its work"));
}

TEST(Coordinator, AWorkerThatStoppedButCouldNotSaveIsNotRestarted) {
  Job job(1, 5);
  job.sent<Start>();
  job->on_message(kLocalPeer, Failed{0, failure_on(0, 0, 74)});
  job->on_message(kLocalPeer, Stopped{0, {failure_on(0, 0, 74)}, ""});
  EXPECT_TRUE(job->ended());
  EXPECT_EQ(job.sent<End>().at(kLocalPeer).exit_code, 74);
  EXPECT_EQ(job.stores(), 1);
}

TEST(Coordinator, NoRestartFollowsAFailureSoonAfterANotice) {
  Job job(2, 5);
  job.sent<Start>();
  job->on_message(kLocalPeer, Noticed{0});
  job->on_message(1, Failed{0, failure_on(2, 1, 4)});
  job->on_message(1, Stopped{0, {failure_on(2, 1, 4)}, ""});
  job->on_message(kLocalPeer, Stopped{0, {}, ""});
  const auto end = job.sent<End>().at(kLocalPeer);
  EXPECT_EQ(end.exit_code, 4);
  EXPECT_THAT(end.text, HasSubstr("no restart: the job was asked to stop by SIGUSR1\n"));
  EXPECT_THAT(end.text, HasSubstr("root cause: rank 2"));
}

TEST(Coordinator, NoRestartFollowsANoticeThatOnlyAnEndingAttemptGot) {
  Job job(1, 5);
  job->on_message(kLocalPeer, Failed{0, failure_on(0, 0, 4)});
  job->on_message(kLocalPeer, Noticed{0});
  job->on_message(kLocalPeer, Stopped{0, {failure_on(0, 0, 4)}, ""});
  EXPECT_EQ(job.sent<End>().at(kLocalPeer).exit_code, 4);
}

TEST(Coordinator, AFailureLongAfterANoticeIsNotItsConsequence) {
  Job job(1, 1, std::chrono::milliseconds(0));
  job.sent<Start>();
  job->on_message(kLocalPeer, Noticed{0});
  job->on_message(kLocalPeer, Failed{0, failure_on(0, 0, 4)});
  job->on_message(kLocalPeer, Stopped{0, {failure_on(0, 0, 4)}, ""});
  EXPECT_THAT(job.sent<Start>(), SizeIs(1));
}

TEST(Coordinator, ANoticeToAnEarlierAttemptIsForgotten) {
  Job job(1, 2);
  for (const int attempt : {0, 1}) {
    job.sent<Start>();
    job->on_message(kLocalPeer, Failed{attempt, failure_on(0, 0, 4)});
    job->on_message(kLocalPeer, Stopped{attempt, {failure_on(0, 0, 4)}, ""});
    job->on_message(kLocalPeer, Noticed{0});
  }
  EXPECT_THAT(job.sent<Start>(), SizeIs(1));
}

TEST(Coordinator, AWorkerThatANoticeEndedIsNotRestarted) {
  Failure killed = failure_on(0, 0, 0);
  killed.signal = SIGUSR1;
  for (const Failure& failure : {killed, failure_on(0, 0, 128 + SIGUSR1)}) {
    Job job(1, 5);
    job->on_message(kLocalPeer, Failed{0, failure});
    job->on_message(kLocalPeer, Stopped{0, {failure}, ""});
    EXPECT_EQ(job.sent<End>().at(kLocalPeer).exit_code, 128 + SIGUSR1);
  }
}

TEST(Coordinator, AnInterruptAfterAFailureKeepsTheReportButDoesNotRestart) {
  Job job(1, 5);
  job->on_message(kLocalPeer, Failed{0, failure_on(0, 0)});
  job->on_message(kLocalPeer, Interrupted{SIGINT});
  job->on_message(kLocalPeer, Stopped{0, {failure_on(0, 0)}, ""});
  EXPECT_EQ(job.sent<End>().at(kLocalPeer).exit_code, 3);
}

TEST(Coordinator, TheStoresDeathRestartsTheGroupWithANewStore) {
  Job job(2, 1);
  job.sent<Start>();
  EXPECT_TRUE(job->on_store_died("SIGKILL"));
  EXPECT_THAT(job.sent<Stop>(), SizeIs(2));
  job->on_message(1, Stopped{0, {failure_on(2, 1, 143)}, ""});
  job->on_message(kLocalPeer, Stopped{0, {}, ""});
  const auto started = job.sent<Start>();
  ASSERT_THAT(started, SizeIs(2));
  EXPECT_EQ(started.at(1).plan.attempt, 1);
  EXPECT_EQ(started.at(1).plan.master_port, 1002);
  EXPECT_EQ(started.at(1).why, "the store process of the job died: SIGKILL");
  job->on_store_died("SIGKILL");
  job->on_message(1, Stopped{1, {}, ""});
  job->on_message(kLocalPeer, Stopped{1, {}, ""});
  const auto end = job.sent<End>().at(kLocalPeer);
  EXPECT_EQ(end.exit_code, 1) << "no restart is left";
  EXPECT_THAT(end.text, HasSubstr("the same command can be started again"));
}

TEST(Coordinator, TheStoresDeathDoesNotRestartAJobThatWasAskedToStop) {
  Job job(1, 5);
  job.sent<Start>();
  job->on_message(kLocalPeer, Noticed{0});
  job->on_store_died("SIGKILL");
  job->on_message(kLocalPeer, Stopped{0, {}, ""});
  const auto end = job.sent<End>();
  ASSERT_THAT(end, SizeIs(1));
  EXPECT_THAT(end.at(kLocalPeer).text, HasSubstr("no restart: the job was asked to stop"));
}

TEST(Coordinator, TheStoresDeathEndsTheJob) {
  Job job(1);
  job.sent<Start>();
  job->on_store_died("SIGKILL");
  EXPECT_THAT(job.sent<Stop>(), SizeIs(1));
  job->on_message(kLocalPeer, Stopped{0, {}, ""});
  EXPECT_THAT(job.sent<End>().at(kLocalPeer).text, HasSubstr("the store process of the job died"));
}

TEST(Coordinator, WrongNodesAreRefusedAndEndTheJob) {
  Coordinator coordinator(Job::settings(2, 0), [] { return 1; });
  coordinator.on_message(1, node("host1", 1, 3));
  const auto outgoing = coordinator.take_outgoing();
  ASSERT_THAT(outgoing, SizeIs(2));
  EXPECT_THAT(std::get<Refused>(outgoing[0].message).reason, HasSubstr("--nnodes 3"));
  EXPECT_EQ(std::get<End>(outgoing[1].message).exit_code, 1);
  EXPECT_FALSE(coordinator.is_member(1));
}

TEST(Coordinator, MissingNodesAreNamedByRank) {
  auto settings = Job::settings(4, 0);
  settings.join_timeout = {};
  Coordinator coordinator(settings, [] { return 1; });
  coordinator.on_message(1, node("host2", 2, 4));
  coordinator.on_time();
  EXPECT_THAT(std::get<End>(coordinator.take_outgoing().at(0).message).text,
              HasSubstr("nodes 1, 3 of 4 did not come"));
}

TEST(Coordinator, NoNodeIsMissingOnceAllAreHere) {
  EXPECT_EQ(Job(2)->missing_nodes(), "");
  EXPECT_EQ(Coordinator(Job::settings(2, 0), [] { return 1; }).missing_nodes(), "node 1 of 2");
}

TEST(Coordinator, MissingNodesWithoutRanksAreCounted) {
  auto settings = Job::settings(4, 0);
  settings.leader.node_rank = -1;
  settings.join_timeout = {};
  Coordinator coordinator(settings, [] { return 1; });
  coordinator.on_time();
  EXPECT_THAT(std::get<End>(coordinator.take_outgoing().at(0).message).text,
              HasSubstr("3 of 4 nodes (present: a node without --node-rank on 'host0')"));
}

TEST(Coordinator, ANodeThatCannotStopDoesNotHoldUpTheOthers) {
  auto settings = Job::settings(2, 0);
  settings.stop_timeout = {};
  Coordinator coordinator(settings, [] { return 1; });
  coordinator.on_message(1, node("host1", 1, 2));
  coordinator.on_message(1, Failed{0, failure_on(2, 1)});
  coordinator.on_time();
  EXPECT_TRUE(coordinator.ended());
}

TEST(Coordinator, ANodeThatCannotStopIsNotStartedAgain) {
  auto settings = Job::settings(2, 5);
  settings.stop_timeout = {};
  Coordinator coordinator(settings, [] { return 1; });
  coordinator.on_message(1, node("host1", 1, 2));
  coordinator.on_message(kLocalPeer, Failed{0, failure_on(0, 0)});
  coordinator.on_message(kLocalPeer, Stopped{0, {failure_on(0, 0)}, ""});
  coordinator.take_outgoing();
  coordinator.on_time();
  ASSERT_TRUE(coordinator.ended()) << "workers of node 1 may live: no second attempt beside them";
  EXPECT_THAT(std::get<End>(coordinator.take_outgoing().at(0).message).text,
              HasSubstr("no restart: node 1 'host1' did not stop its workers within 0 ms"));
}

TEST(Coordinator, NothingStartsBesideWhatCannotBeKilled) {
  Job job(2, 5);
  job.sent<Start>();
  job->on_message(1, Failed{0, failure_on(2, 1)});
  job->on_message(1, Stopped{0, {failure_on(2, 1)}, "rank 2 (pid 7) cannot be killed"});
  job->on_message(kLocalPeer, Stopped{0, {}, ""});
  const auto ends = job.sent<End>();
  ASSERT_THAT(ends, SizeIs(2));
  EXPECT_EQ(ends.at(kLocalPeer).exit_code, 3);
  EXPECT_THAT(ends.at(kLocalPeer).text,
              HasSubstr("no restart: node 1 'host1': rank 2 (pid 7) cannot be killed"));
}

TEST(Coordinator, ANodeThatCannotGoOnIsNamedWithItsReason) {
  Job job(2, 5);
  job.sent<Start>();
  job->on_message(1, Unable{0, "starting rank 2: no processes left"});
  EXPECT_THAT(job.sent<Stop>(), SizeIs(1)) << "the node itself stops its own workers";
  job->on_message(1, Stopped{0, {}, ""});
  job->on_message(kLocalPeer, Stopped{0, {}, ""});
  const auto ends = job.sent<End>();
  ASSERT_THAT(ends, SizeIs(2));
  EXPECT_EQ(ends.at(1).exit_code, 1);
  EXPECT_EQ(ends.at(kLocalPeer).text,
            "lockstep run: the job failed: node 1 'host1': starting rank 2: no processes left\n");
}

TEST(Coordinator, ALeaderThatCannotGoOnTellsTheOthers) {
  Job job(2);
  job.sent<Start>();
  job->give_up("out of luck");
  const auto ends = job.sent<End>();
  ASSERT_THAT(ends, SizeIs(1));
  EXPECT_THAT(ends.at(1).text, HasSubstr("node 0 'host0': out of luck"));
}

TEST(Coordinator, WhoMeetsAJobThatIsEndingMayComeAgain) {
  Job job(2);
  job.sent<Start>();
  job->on_lost(1, "gone");
  job->on_message(7, node("host1", 1, 2));
  EXPECT_TRUE(job.sent<Refused>().at(7).ending);
}

TEST(Coordinator, StrangersCannotDoAnything) {
  Job job(2);
  job.sent<Start>();
  job->on_message(77, Failed{0, failure_on(0, 0)});
  job->on_message(77, Done{0});
  job->on_message(77, Interrupted{SIGINT});
  job->on_lost(77, "x");
  EXPECT_THAT(job->take_outgoing(), IsEmpty());
  job->on_message(77, node("late", 1, 2));
  const Refused refused = job.sent<Refused>().at(77);
  EXPECT_THAT(refused.reason, HasSubstr("one too many"));
  EXPECT_FALSE(refused.ending);
  EXPECT_FALSE(job->ended());
}

TEST(Coordinator, NoRestartFollowsACodeThatIsFinal) {
  for (const int code : {64, 65}) {
    Job job(1, /*max_restarts=*/1);
    job.sent<Start>();
    job->on_message(kLocalPeer, Failed{0, failure_on(0, 0, code)});
    job->on_message(kLocalPeer, Stopped{0, {failure_on(0, 0, code)}, ""});
    EXPECT_EQ(job->ended(), code == 64);
  }
}

TEST(Coordinator, ASignalBetweenTwoAttemptsStopsTheNextOne) {
  Job job(1, /*max_restarts=*/1);
  job.sent<Start>();
  job->on_message(kLocalPeer, Failed{0, failure_on(0, 0)});
  job->on_message(kLocalPeer, Stopped{0, {failure_on(0, 0)}, ""});
  job->on_message(kLocalPeer, Interrupted{SIGINT});
  bool started = false;
  bool stopped = false;
  for (const auto& [peer, message] : job->take_outgoing()) {
    started = started || std::holds_alternative<Start>(message);
    stopped = stopped || (started && std::holds_alternative<Stop>(message));
  }
  EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace lockstep::launch
