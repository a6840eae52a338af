#include "lockstep/launch/node/worker_group.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tests/launch/job.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class WorkerGroupTest : public ::testing::Test {
 protected:
  void start(const std::string& script, int workers) {
    context_ = shell_context(folder_, signals_, script, workers);
    context_.options.logs.folder = folder_.path;
    group_ =
        std::make_unique<WorkerGroup>(context_, loop_, consoles_.get(), start_command(workers));
    group_->start();
  }

  void run_until_all_ended() {
    const Deadline deadline = Deadline::in(std::chrono::seconds(20));
    while (group_->running() > 0 && !deadline.passed()) {
      loop_.run_once(Deadline::in(std::chrono::milliseconds(5)));
      std::vector<ChildExit> exits;
      int status = 0;
      for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        exits.push_back({pid, status});
      }
      group_->on_exits(exits);
    }
    group_->drain(Deadline::in(std::chrono::seconds(1)));
  }

  // Waits for so many workers to end: what the launcher sees when it was busy meanwhile.
  static std::vector<ChildExit> reap(int count) {
    std::vector<ChildExit> exits;
    for (int i = 0; i < count; ++i) {
      ChildExit exit;
      exit.pid = ::waitpid(-1, &exit.status, 0);
      exits.push_back(exit);
    }
    std::sort(exits.begin(), exits.end(), [](auto& a, auto& b) { return a.pid < b.pid; });
    return exits;
  }

  test::TemporaryFolder folder_;
  TestConsoles consoles_{folder_};
  Signals signals_{{SIGTERM}};
  Context context_;
  EventLoop loop_;
  std::unique_ptr<WorkerGroup> group_;
};

TEST_F(WorkerGroupTest, OutputGoesToFilesAndConsole) {
  start("echo out $RANK; echo err $RANK >&2", 2);
  run_until_all_ended();
  EXPECT_EQ(folder_.read("attempt_0/0/stdout.log"), "out 0\n");
  EXPECT_EQ(folder_.read("attempt_0/1/stderr.log"), "err 1\n");
  EXPECT_EQ(consoles_.out().size(), 12U);
  EXPECT_THAT(group_->failures(), SizeIs(0));
}

TEST_F(WorkerGroupTest, WorkersSeeTheGpusThatWereChosen) {
  const std::string script = "echo gpus: ${CUDA_VISIBLE_DEVICES-all}";
  context_ = shell_context(folder_, signals_, script, 2);
  context_.options.logs.folder = folder_.path;
  context_.environment.set("CUDA_VISIBLE_DEVICES", "7");
  context_.options.gpu_ids = {2, 0};
  group_ = std::make_unique<WorkerGroup>(context_, loop_, consoles_.get(), start_command(2));
  group_->start();
  run_until_all_ended();
  EXPECT_EQ(folder_.read("attempt_0/0/stdout.log"), "gpus: 2,0\n");
  EXPECT_EQ(folder_.read("attempt_0/1/stdout.log"), "gpus: 2,0\n");
}

TEST_F(WorkerGroupTest, FailuresAreCompleteAfterDraining) {
  start("echo why >&2; [ $RANK = 1 ] && exit 5; exit 0", 2);
  run_until_all_ended();
  const auto failures = group_->failures();
  ASSERT_THAT(failures, SizeIs(1));
  EXPECT_EQ(failures[0].rank, 1);
  EXPECT_EQ(failures[0].exit_code, 5);
  EXPECT_EQ(failures[0].stderr_tail, "why");
  EXPECT_EQ(failures[0].host, "testhost");
  EXPECT_EQ(failures[0].log_path, folder_.file("attempt_0/1/stderr.log"));
  EXPECT_FALSE(failures[0].stopped_by_us);
}

TEST_F(WorkerGroupTest, WhoeverEndsAfterASignalWasStoppedByUs) {
  start("sleep 100", 2);
  EXPECT_EQ(group_->running(), 2);
  group_->signal(SIGTERM);
  run_until_all_ended();
  for (const auto& failure : group_->failures()) {
    EXPECT_EQ(failure.signal, SIGTERM);
    EXPECT_TRUE(failure.stopped_by_us);
  }
  EXPECT_THAT(group_->failures(), SizeIs(2));
}

TEST_F(WorkerGroupTest, AnotherChildWithThePidOfAWorkerThatEndedIsNoWorker) {
  start("exit 3", 1);
  const auto exits = reap(1);
  group_->on_exits(exits);
  group_->on_exits(exits);
  EXPECT_THAT(group_->failures(), SizeIs(1));
  EXPECT_EQ(group_->running(), 0);
}

TEST_F(WorkerGroupTest, NotesOfTheSameMomentAreOrderedByTheirTime) {
  start(
      "echo \"{\\\"message\\\": \\\"m\\\", \\\"timestamp\\\": $((100 - RANK))}\" > "
      "\"$TORCHELASTIC_ERROR_FILE\"; exit 1",
      3);
  group_->on_exits(reap(3));
  std::vector<std::int64_t> times;
  for (const auto& failure : group_->failures()) {
    times.push_back(failure.timestamp);
  }
  EXPECT_THAT(times, ElementsAre(98, 99, 100));
}

std::vector<int> ranks_of(const std::vector<Failure>& failures) {
  std::vector<int> ranks;
  for (const auto& failure : failures) {
    ranks.push_back(failure.rank);
  }
  return ranks;
}

TEST_F(WorkerGroupTest, TheLowestRankStandsForThoseThatEndedAlikeAtTheSameMoment) {
  start("exit 1", 3);
  auto exits = reap(3);
  std::reverse(exits.begin(), exits.end());
  group_->on_exits(exits);
  EXPECT_THAT(ranks_of(group_->failures()), ElementsAre(0, 1, 2));
}

TEST_F(WorkerGroupTest, OfThoseThatEndedAlikeTheOneWithAReasonIsFirst) {
  start("[ $RANK = 2 ] && echo '{\"message\": \"m\"}' > \"$TORCHELASTIC_ERROR_FILE\"; exit 1", 3);
  group_->on_exits(reap(3));
  EXPECT_THAT(ranks_of(group_->failures()), ElementsAre(2, 0, 1));
}

TEST_F(WorkerGroupTest, AReasonToldBeforeTheSignalIsNotCausedByUs) {
  // Rank 1 ends first, without a word. Rank 0 has told its reason, and rank 2 does after the
  // signal.
  start(
      "tell() { echo '{\"message\": \"m\"}' > \"$TORCHELASTIC_ERROR_FILE\"; }; "
      "[ $RANK = 1 ] && exit 1; [ $RANK = 0 ] && tell && trap 'exit 1' TERM; "
      "[ $RANK = 2 ] && trap 'tell; exit 1' TERM; touch \"$TORCHELASTIC_ERROR_FILE.up\"; "
      "while :; do sleep 0.01; done",
      3);
  for (const char* rank : {"0", "2"}) {
    ASSERT_TRUE(wait_for_file(folder_.file(std::string("attempt_0/") + rank + "/error.json.up")));
  }
  group_->on_exits(reap(1));
  EXPECT_EQ(group_->first_failure()->rank, 1);
  ::usleep(20'000);  // The clock of files has steps of some milliseconds.
  group_->signal(SIGTERM);
  run_until_all_ended();
  const auto failures = group_->failures();
  ASSERT_THAT(failures, SizeIs(3));
  EXPECT_EQ(failures[0].rank, 0);
  for (const auto& failure : failures) {
    EXPECT_EQ(failure.stopped_by_us, failure.rank == 2);
  }
}

TEST_F(WorkerGroupTest, LogsWhoseFolderIsGoneAreMissedOnce) {
  std::filesystem::create_symlink(folder_.file("gone"), folder_.file("log"));
  context_ = shell_context(folder_, signals_, "[ $RANK = 0 ] && echo shown >&2; exit 3", 2);
  context_.options.logs.named_by_worker = true;
  group_ = std::make_unique<WorkerGroup>(context_, loop_, consoles_.get(), start_command(2));
  group_->start();
  run_until_all_ended();
  const std::string err = consoles_.err();
  const std::string complaint =
      "lockstep run: the output of workers of this start is not kept in "
      "logs: making the folder '";
  EXPECT_THAT(err, HasSubstr(complaint));
  EXPECT_EQ(err.find(complaint), err.rfind(complaint));
  EXPECT_THAT(err, HasSubstr("shown\n"));
  for (const auto& failure : group_->failures()) {
    EXPECT_EQ(failure.log_path, "");
  }
}

TEST_F(WorkerGroupTest, NamesTheRanksThatStillRun) {
  start("exec sleep 100", 1);
  EXPECT_THAT(group_->running_ranks(), ::testing::MatchesRegex("rank 0 \\(pid [0-9]+\\)"));
  group_->signal(SIGKILL);
  run_until_all_ended();
}

}  // namespace
}  // namespace lockstep::launch
