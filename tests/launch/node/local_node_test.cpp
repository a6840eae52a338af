#include "lockstep/launch/node/local_node.h"

#include <gmock/gmock.h>
#include <sys/ptrace.h>

#include <csignal>

#include "tests/launch/job.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class LocalNodeTest : public ::testing::Test {
 protected:
  void start(const std::string& script, int workers, std::chrono::milliseconds grace) {
    context_ = shell_context(folder_, signals_, script, workers);
    context_.options.shutdown_timeout = grace;
    NodeHooks hooks;
    hooks.report = [this](const Message& message) { reports_.push_back(message); };
    hooks.sweep = [this] {
      ++sweeps_;
      return true;
    };
    node_ = std::make_unique<LocalNode>(context_, loop_, consoles_.get(), std::move(hooks));
    node_->start(start_command(workers));
  }

  template <class T>
  T run_until() {
    const Deadline deadline = Deadline::in(std::chrono::seconds(20));
    while ((reports_.empty() || !std::holds_alternative<T>(reports_.back())) &&
           !deadline.passed()) {
      loop_.run_once(Deadline::in(std::chrono::milliseconds(5)));
      std::vector<ChildExit> exits;
      int status = 0;
      for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        exits.push_back({pid, status});
      }
      node_->on_exits(exits);
      node_->on_time();
    }
    return std::get<T>(reports_.back());
  }

  test::TemporaryFolder folder_;
  TestConsoles consoles_{folder_};
  Signals signals_{{SIGTERM}};
  Context context_;
  EventLoop loop_;
  std::vector<Message> reports_;
  int sweeps_ = 0;
  std::unique_ptr<LocalNode> node_;
};

TEST_F(LocalNodeTest, ReportsSuccessAfterSweeping) {
  start("true", 2, std::chrono::seconds(9));
  EXPECT_EQ(run_until<Done>().attempt, 0);
  EXPECT_EQ(sweeps_, 1);
  EXPECT_FALSE(node_->busy());
}

TEST_F(LocalNodeTest, AFailureIsReportedAtOnceAndStopsTheRest) {
  start("[ $RANK = 1 ] && exit 4; sleep 100", 3, std::chrono::seconds(9));
  const Stopped stopped = run_until<Stopped>();
  EXPECT_EQ(std::get<Failed>(reports_.front()).failure.exit_code, 4);
  ASSERT_THAT(stopped.failures, SizeIs(3));
  EXPECT_EQ(stopped.failures[0].rank, 1);
  EXPECT_EQ(stopped.failures[1].signal, SIGTERM);
}

TEST_F(LocalNodeTest, TheStubbornAreKilledAfterTheGrace) {
  start("trap '' TERM; touch \"$TORCHELASTIC_ERROR_FILE.up\"; while :; do sleep 1; done", 1,
        std::chrono::milliseconds(50));
  while (folder_.read("attempt_0/0/error.json.up").empty() &&
         !std::filesystem::exists(folder_.file("attempt_0/0/error.json.up"))) {
    ::usleep(1000);
  }
  node_->stop({0, SIGTERM});
  EXPECT_TRUE(node_->busy());
  EXPECT_EQ(run_until<Stopped>().failures.at(0).signal, SIGKILL);
  EXPECT_THAT(consoles_.err(), HasSubstr("did not end within 50 ms: killed"));
}

TEST_F(LocalNodeTest, AnInterruptIsPassedOnAndReported) {
  start("sleep 100", 2, std::chrono::seconds(9));
  node_->interrupt(SIGINT);
  EXPECT_EQ(std::get<Interrupted>(reports_.front()).signal, SIGINT);
  EXPECT_EQ(run_until<Stopped>().failures.at(0).signal, SIGINT);
  EXPECT_THAT(consoles_.err(), HasSubstr("SIGINT received: passed on to 2 workers"));
}

// Says when a signal came, and goes on.
const char* const kTellsOfSignals =
    "trap 'touch \"$TORCHELASTIC_ERROR_FILE.got\"; exit 5' TERM INT; "
    "touch \"$TORCHELASTIC_ERROR_FILE.up\"; ";

TEST_F(LocalNodeTest, AWorkerThatStoppedInOrderSignalsNobody) {
  start(std::string(kTellsOfSignals) +
            "[ $RANK = 1 ] && exit 75; while [ ! -e \"$TORCHELASTIC_ERROR_FILE.go\" ]; do sleep "
            "0.01; done; exit 75",
        2, std::chrono::seconds(9));
  EXPECT_EQ(run_until<Failed>().failure.rank, 1);
  EXPECT_TRUE(node_->busy()) << "the others have the shutdown time";
  std::ofstream(folder_.file("attempt_0/0/error.json.go")) << "go";
  const Stopped stopped = run_until<Stopped>();
  ASSERT_THAT(stopped.failures, SizeIs(2));
  EXPECT_EQ(stopped.failures[1].exit_code, 75);
  EXPECT_FALSE(stopped.failures[1].stopped_by_us);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("attempt_0/0/error.json.got")));
}

TEST_F(LocalNodeTest, WhoStaysAfterAStopInOrderIsKilledAfterTheGrace) {
  start("[ $RANK = 1 ] && exit 75; sleep 100", 2, std::chrono::milliseconds(50));
  const Stopped stopped = run_until<Stopped>();
  EXPECT_EQ(stopped.failures.at(1).signal, SIGKILL);
  EXPECT_THAT(consoles_.err(), HasSubstr("did not end within 50 ms: killed"));
}

TEST_F(LocalNodeTest, AStopWithoutASignalWaitsAndALaterOneIsObeyed) {
  start(std::string(kTellsOfSignals) + "while :; do sleep 0.01; done", 1, std::chrono::seconds(9));
  ASSERT_TRUE(wait_for_file(folder_.file("attempt_0/0/error.json.up")));
  node_->stop({0, 0});
  EXPECT_TRUE(node_->busy());
  node_->stop({0, 0});
  EXPECT_FALSE(std::filesystem::exists(folder_.file("attempt_0/0/error.json.got")));
  node_->stop({0, SIGINT});
  EXPECT_EQ(run_until<Stopped>().failures.at(0).exit_code, 5);
}

TEST_F(LocalNodeTest, AFailureSeenAtTheSameMomentComesBeforeAStopInOrder) {
  start("touch \"$TORCHELASTIC_ERROR_FILE.up\"; exit $((75 - RANK * 71))", 2,
        std::chrono::seconds(9));
  for (const char* rank : {"0", "1"}) {
    ASSERT_TRUE(wait_for_file(folder_.file(std::string("attempt_0/") + rank + "/error.json.up")));
  }
  ::usleep(100'000);  // Both have ended before we look.
  run_until<Stopped>();
  EXPECT_EQ(std::get<Failed>(reports_.front()).failure.exit_code, 4);
}

TEST_F(LocalNodeTest, AStopForAnotherAttemptIsIgnored) {
  start("sleep 0.1", 1, std::chrono::seconds(9));
  node_->stop({7, SIGTERM});
  run_until<Done>();
}

TEST_F(LocalNodeTest, ARestartSaysWhy) {
  start("true", 1, std::chrono::seconds(9));
  run_until<Done>();
  Start again = start_command();
  again.plan.attempt = 1;
  again.plan.max_restarts = 2;
  again.why = "rank 0 failed";
  reports_.clear();
  node_->start(again);
  EXPECT_EQ(consoles_.err(),
            "lockstep run: rank 0 failed; restarting all workers (restart 1 of 2)\n");
  EXPECT_EQ(run_until<Done>().attempt, 1);
}

TEST_F(LocalNodeTest, WhatKeepsWorkersFromStartingIsReportedAndTheOthersAreStopped) {
  ASSERT_EQ(folder_.write("attempt_0", "no folder"), folder_.file("attempt_0"));
  start("sleep 100", 2, std::chrono::seconds(9));
  ASSERT_THAT(reports_, SizeIs(2));
  EXPECT_THAT(std::get<Unable>(reports_[0]).why,
              HasSubstr("starting rank 0 (local rank 0): making the folder"));
  EXPECT_THAT(std::get<Stopped>(reports_[1]).failures, SizeIs(0));
}

// Attaches to `worker` as a debugger does: what is killed then is not gone until the debugger lets
// it go, as far as its parent can see.
class Debugger {
 public:
  explicit Debugger(pid_t worker) {
    Pipe attached = make_pipe();
    pid_ = ::fork();
    if (pid_ == 0) {
      const bool well = ::ptrace(PTRACE_SEIZE, worker, nullptr, nullptr) == 0;
      write_all(attached.write_end.get(), well ? "y" : "n");
      for (;;) {
        ::pause();
      }
    }
    attached.write_end.reset();
    char answer = 0;
    EXPECT_EQ(::read(attached.read_end.get(), &answer, 1), 1);
    EXPECT_EQ(answer, 'y') << "this user may not trace its own children";
  }
  ~Debugger() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Debugger(const Debugger&) = delete;
  Debugger& operator=(const Debugger&) = delete;

 private:
  pid_t pid_ = 0;
};

TEST_F(LocalNodeTest, WorkersThatCannotBeKilledAreReportedAndNothingStartsBesideThem) {
  start(
      "echo $$ > \"$TORCHELASTIC_ERROR_FILE.new\"; mv \"$TORCHELASTIC_ERROR_FILE.new\" "
      "\"$TORCHELASTIC_ERROR_FILE.up\"; exec sleep 100",
      1, std::chrono::milliseconds(1));
  ASSERT_TRUE(wait_for_file(folder_.file("attempt_0/0/error.json.up")));
  const std::string pid = folder_.read("attempt_0/0/error.json.up");
  {
    const Debugger debugger(std::stoi(pid));
    node_->stop({0, SIGTERM});
    EXPECT_THAT(run_until<Stopped>().stuck,
                HasSubstr("rank 0 (pid " + std::to_string(std::stoi(pid)) + ") cannot be killed"));
    Start again = start_command();
    again.plan.attempt = 1;
    reports_.clear();
    node_->start(again);
    ASSERT_THAT(reports_, SizeIs(2));
    EXPECT_THAT(std::get<Unable>(reports_[0]).why, HasSubstr("no worker was started: rank 0"));
  }
  ::waitpid(std::stoi(pid), nullptr, 0);
}

TEST_F(LocalNodeTest, ASignalThatEndsNoJobReachesTheWorkersAlone) {
  start("trap 'exit 0' USR1; touch \"$TORCHELASTIC_ERROR_FILE.up\"; while :; do sleep 0.01; done",
        2, std::chrono::seconds(9));
  for (const char* rank : {"0", "1"}) {
    ASSERT_TRUE(wait_for_file(folder_.file(std::string("attempt_0/") + rank + "/error.json.up")));
  }
  node_->pass_on(SIGUSR1);
  run_until<Done>();
  ASSERT_THAT(reports_, SizeIs(2)) << "nobody was told to stop";
  EXPECT_EQ(std::get<Noticed>(reports_[0]).attempt, 0);
  EXPECT_EQ(consoles_.err(), "");
}

TEST_F(LocalNodeTest, ASignalAfterANoticeIsNotToldAsTheFirst) {
  start("trap '' USR1; touch \"$TORCHELASTIC_ERROR_FILE.up\"; exec sleep 100", 1,
        std::chrono::seconds(9));
  ASSERT_TRUE(wait_for_file(folder_.file("attempt_0/0/error.json.up")));
  node_->pass_on(SIGUSR1);
  node_->interrupt(SIGTERM);
  run_until<Stopped>();
  EXPECT_EQ(consoles_.err(),
            "lockstep run: SIGTERM received: passed on to 1 worker, with 9 s to end; those that "
            "stop after SIGUSR1 may take it for the second signal and end at once; another one "
            "kills at once\n");
}

TEST_F(LocalNodeTest, WithoutWorkersASignalThatWouldEndThemIsDropped) {
  start("sleep 0.1", 1, std::chrono::seconds(9));
  run_until<Done>();
  node_->pass_on(SIGUSR1);
  Start again = start_command();
  again.plan.attempt = 1;
  reports_.clear();
  node_->start(again);
  EXPECT_EQ(run_until<Done>().attempt, 1);
}

// As `lockstep train` does before it starts a launcher.
class HeldBack {
 protected:
  HeldBack() {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGUSR1);
    ::sigprocmask(SIG_BLOCK, &signals, &before_);
  }
  ~HeldBack() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  HeldBack(const HeldBack&) = delete;
  HeldBack& operator=(const HeldBack&) = delete;

 private:
  sigset_t before_{};
};

class LocalNodeHeldBackTest : private HeldBack, public LocalNodeTest {};

TEST_F(LocalNodeHeldBackTest, ASignalBetweenAttemptsWaitsForTheWorkersOfTheNext) {
  // Those of the second attempt end well when SIGUSR1, bit 9, waits for them.
  start(
      "[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exit 0; exec bash -c '"
      "for i in {1..100}; do grep -q ^ShdPnd:.*200$ /proc/$$/status && exit 0; sleep 0.01; "
      "done; exit 9'",  // dash lets all signals through once it has waited for a command.
      2, std::chrono::seconds(9));
  run_until<Done>();
  node_->pass_on(SIGUSR1);
  EXPECT_THAT(reports_, SizeIs(1)) << "it is not lost, so the job need not end for it";
  Start again = start_command(2);
  again.plan.attempt = 1;
  reports_.clear();
  node_->start(again);
  EXPECT_EQ(run_until<Done>().attempt, 1);
  // Once: those of a third attempt do not get it again.
  again.plan.attempt = 2;
  reports_.clear();
  node_->start(again);
  EXPECT_EQ(run_until<Stopped>().failures.at(0).exit_code, 9);
}

}  // namespace
}  // namespace lockstep::launch
