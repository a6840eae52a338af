#include "lockstep/launch/job/report.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>

namespace lockstep::launch {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

Failure failure(int rank, int exit_code) {
  Failure failure;
  failure.rank = rank;
  failure.local_rank = rank % 2;
  failure.node_rank = rank / 2;
  failure.host = "hosta";
  failure.pid = 100 + rank;
  failure.exit_code = exit_code;
  return failure;
}

Failure stopped(int rank) {
  Failure result = failure(rank, 0);
  result.signal = SIGTERM;
  result.stopped_by_us = true;
  return result;
}

TEST(Report, TellsTheRootCauseLast) {
  Failure root = failure(3, 7);
  root.message = "Oops: it";
  root.stderr_tail = "line 1\nline 2\n";
  root.log_path = "/logs/x";
  EXPECT_EQ(
      format_report({root, failure(1, 2), stopped(0)}, true),
      "lockstep run: workers that ended after the root cause below:\n"
      "  rank 1 (local rank 1) on node 0 'hosta', pid 101: exit code 2\n"
      "  stopped by lockstep run: rank 0\n"
      "lockstep run: the job failed; root cause: rank 3 (local rank 1) on node 1 'hosta', pid "
      "103: exit code 7\n"
      "  message\n"
      "    | Oops: it\n"
      "  end of its stderr\n"
      "    | line 1\n"
      "    | line 2\n"
      "  log: /logs/x\n");
}

TEST(Report, SaysAMessageOnce) {
  Failure root = failure(0, 1);
  root.message = "no such file\nHINT: another one";
  root.stderr_tail = "program: no such file\nHINT: another one\n";
  EXPECT_THAT(format_report({root}, false), Not(HasSubstr("end of its stderr")));
  root.stderr_tail += "program: more\n";
  EXPECT_THAT(format_report({root}, false),
              HasSubstr("end of its stderr\n    | program: no such file\n"));
  root.message.clear();
  EXPECT_THAT(format_report({root}, false), HasSubstr("end of its stderr"));
}

TEST(Report, ShowsWhatStandsBeforeAMessageAndIsNoName) {
  Failure root = failure(0, 1);
  root.message = "Permission denied";
  for (const char* name : {"program", "lockstep train", "a.out"}) {
    root.stderr_tail = std::string(name) + ": Permission denied\n";
    EXPECT_THAT(format_report({root}, false), Not(HasSubstr("end of its stderr"))) << name;
  }
  for (const char* more : {"cannot open", "/data/train.bin", "program: cannot open"}) {
    root.stderr_tail = std::string(more) + ": Permission denied\n";
    EXPECT_THAT(format_report({root}, false), HasSubstr(more)) << more;
  }
}

TEST(Report, ShowsATracebackThatNoOtherLineTells) {
  Failure root = failure(0, 1);
  root.message = "no such file";
  root.stderr_tail = "program: no such file\n";
  root.traceback = "  #0 main\nno such file";
  EXPECT_THAT(format_report({root}, false), HasSubstr("#0 main"));
}

TEST(Report, NamesSignals) {
  Failure root = failure(0, 0);
  root.signal = SIGSEGV;
  EXPECT_THAT(format_report({root}, false),
              HasSubstr("on 'hosta', pid 100: SIGSEGV (signal 11)\n"));
}

TEST(Report, TracebackIsShownUnlessStderrHasIt) {
  Failure root = failure(0, 1);
  root.traceback = "frame\nError: x\n";
  EXPECT_THAT(format_report({root}, false), HasSubstr("traceback\n    | frame\n    | Error: x\n"));
  root.stderr_tail = "frame\nError: x\n";
  EXPECT_THAT(format_report({root}, false), Not(HasSubstr("traceback")));
}

TEST(Report, FitsOneScreenWhateverHappened) {
  Failure root = failure(0, 1);
  root.message = root.traceback = std::string(1000, '\n') + "m";
  for (int i = 0; i < 1000; ++i) {
    root.stderr_tail += std::string(1000, 'x') + "\n";
    root.traceback += "frame\n";
    root.message += "more\n";
  }
  std::vector<Failure> failures{root};
  for (int rank = 1; rank < 1000; ++rank) {
    failures.push_back(rank % 2 == 0 ? failure(rank, 1) : stopped(rank));
  }
  const std::string report = format_report(failures, false);
  EXPECT_LE(std::count(report.begin(), report.end(), '\n'), 54);
  EXPECT_THAT(report, HasSubstr("  and 489 more\n"));
}

TEST(Report, SaysHowToKeepLogs) {
  EXPECT_THAT(format_report({failure(0, 1)}, false),
              EndsWith("  log: not kept; --log-dir DIR keeps the logs of all workers\n"));
}

TEST(ListFailures, LeavesOutThoseThatWereStopped) {
  EXPECT_EQ(list_failures({stopped(0), stopped(1)}, true), "");
  EXPECT_THAT(list_failures({stopped(0), failure(1, 3)}, true), HasSubstr("rank 1"));
}

TEST(LastLines, CleansWhatATerminalWouldInterpret) {
  EXPECT_EQ(last_lines("a\nb\nc\n\n", 2), "b\nc");
  EXPECT_EQ(last_lines("10%\r50%\r100%\r\nend\x1b[31m!\x07\t.", 5), "100%\nend[31m!\t.");
  EXPECT_EQ(last_lines(std::string(400, 'x'), 1), std::string(300, 'x') + "...");
  EXPECT_EQ(last_lines("", 3), "");
}

TEST(InnermostFrames, AreTheFirstOfACppBacktraceAndReadable) {
  EXPECT_EQ(
      innermost_frames("  #0 ./train+0x1 _ZN3net5crashEv\n  #1 ./train+0x2 main\n  #2 libc\n", 2),
      "  #0 ./train+0x1 net::crash()\n  #1 ./train+0x2 main");
}

TEST(InnermostFrames, AreTheLastOfAPythonOne) {
  EXPECT_EQ(innermost_frames("Traceback\n  a.py\nValueError: x\n", 1), "ValueError: x");
}

}  // namespace
}  // namespace lockstep::launch
