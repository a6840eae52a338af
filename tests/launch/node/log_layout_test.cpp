#include "lockstep/launch/node/log_layout.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "lockstep/base/error.h"
#include "tests/launch/job.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

const PrefixNames kNames{.role = "r", .rank = 12, .local_rank = 3, .host = "h"};

LogOptions logs(const std::string& folder, const std::string& redirects, const std::string& tee) {
  LogOptions options;
  options.folder = folder;
  options.redirects = StreamChoice::parse(redirects, "-r");
  options.tee = StreamChoice::parse(tee, "-t");
  return options;
}

unsigned mode_of(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

TEST(RunFolder, LiesBelowLogDirAndIsKept) {
  const test::TemporaryFolder folder;
  RunOptions options;
  options.run_id = "a/b";
  options.logs = logs(folder.file("deep/logs"), "0", "0");
  const RunFolder run = choose_run_folder(options, {});
  EXPECT_THAT(run.path, StartsWith(folder.file("deep/logs/a_b_")));
  run.make();
  EXPECT_EQ(mode_of(run.path), 0700U);
  run.remove_if_temporary();
  EXPECT_TRUE(std::filesystem::exists(run.path));
}

TEST(RunFolder, IsTemporaryOtherwiseAndCanBeRemoved) {
  const test::TemporaryFolder folder;
  const Environment environment({{"TMPDIR", folder.path}});
  const RunFolder run = choose_run_folder({}, environment);
  EXPECT_THAT(run.path, StartsWith(folder.file("lockstep_")));
  EXPECT_FALSE(std::filesystem::exists(run.path)) << "a launcher killed now leaves nothing";
  run.make();
  EXPECT_THROW(run.make(), UsageError) << "a folder of another's making is not used";
  make_worker_folder(run, 0, 0);
  run.remove_if_temporary();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

TEST(RunFolder, WithRoomIsNotFullAndBearsNoTraceOfTheQuestion) {
  const test::TemporaryFolder folder;
  EXPECT_EQ((RunFolder{folder.path, false}.why_full()), "");
  EXPECT_EQ((RunFolder{folder.file("gone"), false}.why_full()), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

TEST(RunFolder, RedirectedOutputIsNeverThrownAway) {
  const test::TemporaryFolder folder;
  RunOptions options;
  options.logs = logs("", "0:1", "0");
  EXPECT_FALSE(choose_run_folder(options, Environment({{"TMPDIR", folder.path}})).temporary);
}

TEST(RunFolder, FileInThePlaceOfLogDirIsAnError) {
  const test::TemporaryFolder folder;
  RunOptions options;
  options.logs.folder = folder.write("file", "");
  EXPECT_THAT([&] { choose_run_folder(options, {}); },
              ThrowsMessage<UsageError>(HasSubstr("--log-dir is '")));
}

TEST(WorkerFolder, HasTorchrunsLayoutAndIsPrivate) {
  const test::TemporaryFolder folder;
  const WorkerFiles files = make_worker_folder({folder.path, false}, 2, 7);
  EXPECT_EQ(files.out, folder.file("attempt_2/7/stdout.log"));
  EXPECT_EQ(files.err, folder.file("attempt_2/7/stderr.log"));
  EXPECT_EQ(files.error, folder.file("attempt_2/7/error.json"));
  EXPECT_EQ(mode_of(folder.file("attempt_2")), 0700U);
  EXPECT_EQ(mode_of(folder.file("attempt_2/7")), 0700U);
}

TEST(LinkedFile, IsBelowTheRunsNameWhereTheLinkLeads) {
  const test::TemporaryFolder folder;
  const RunFolder run{folder.file("lockstep_a")};
  run.make();
  EXPECT_EQ(linked_file(run, 0, 1, &WorkerFiles::err), "");
  std::filesystem::create_directory(folder.file("log"));
  std::filesystem::create_symlink(folder.file("log"), log_link(run));
  EXPECT_EQ(linked_file(run, 0, 1, &WorkerFiles::err),
            folder.file("log/lockstep_a/attempt_0/1/stderr.log"));
  EXPECT_EQ(mode_of(folder.file("log/lockstep_a/attempt_0/1")), 0700U);
}

TEST(Routes, DefaultGoesStraightToTheConsole) {
  EXPECT_TRUE(routes_of(logs("", "0", "0"), 0).out.direct());
}

TEST(Routes, LogDirAloneKeepsAndShows) {
  const auto routes = routes_of(logs("d", "0", "0"), 0);
  EXPECT_TRUE(routes.out.file && routes.out.console && !routes.out.prefixed);
  EXPECT_TRUE(routes.err.file && routes.err.console && !routes.err.prefixed);
}

TEST(Routes, LogsThatAWorkerNamesLeaveTheFirstOnesStdoutAlone) {
  LogOptions options = logs("", "0", "0");
  options.named_by_worker = true;
  EXPECT_TRUE(routes_of(options, 0).out.direct()) << "it may be a terminal";
  EXPECT_TRUE(routes_of(options, 0).err.late && routes_of(options, 0).err.console);
  EXPECT_TRUE(routes_of(options, 1).out.late && routes_of(options, 1).out.console);
}

TEST(Routes, RedirectHidesAndTeeShowsWithPrefix) {
  const auto routes = routes_of(logs("d", "0:1", "0:2"), 0);
  EXPECT_TRUE(routes.out.file && !routes.out.console);
  EXPECT_TRUE(routes.err.file && routes.err.console && routes.err.prefixed);
  EXPECT_TRUE(routes_of(logs("d", "0:1", "0:2"), 1).out.direct());
  EXPECT_TRUE(routes_of(logs("d", "3", "3"), 0).out.console) << "tee wins";
}

TEST(Routes, FilterTakesOnlyTheConsoleAway) {
  LogOptions options = logs("d", "0", "3");
  options.shown_ranks = {1};
  EXPECT_TRUE(routes_of(options, 1).out.console);
  EXPECT_TRUE(routes_of(options, 0).out.file && !routes_of(options, 0).out.console);
}

TEST(Prefix, IsPythonsTemplate) {
  EXPECT_EQ(expand_prefix("", kNames), "[r3]:");
  EXPECT_EQ(expand_prefix("${rank}|$local_rank|$hostname!", kNames), "12|3|h!");
  EXPECT_EQ(expand_prefix("$$ $ ${ ${} ${rank ${other} $other $", kNames),
            "$ $ ${ ${} ${rank ${other} $other $");
}

}  // namespace
}  // namespace lockstep::launch
