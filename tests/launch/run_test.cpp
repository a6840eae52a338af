#include "lockstep/launch/run.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/launch/job.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {
namespace {

TEST(Run, RunsAJobAndCleansUp) {
  const test::TemporaryFolder folder;
  ::setenv("TMPDIR", folder.path.c_str(), 1);
  EXPECT_EQ(exit_code_of([] {
              return run({"--nproc-per-node=2", "sh", "-c", "exit 6"}, {.folder = "/none"});
            }),
            6);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
  ::unsetenv("TMPDIR");
}

TEST(Run, AWorkerSaysWhereLogsAreKept) {
  const test::TemporaryFolder folder;
  const test::TemporaryFolder logs;
  ::setenv("TMPDIR", folder.path.c_str(), 1);
  const std::string script = "echo early $RANK >&2; [ $RANK = 1 ] || ln -s " + logs.path +
                             " $LOCKSTEP_LOG_LINK; "
                             "until [ -L $LOCKSTEP_LOG_LINK ]; do sleep 0.01; done; echo out";
  EXPECT_EQ(exit_code_of([&] {
              return run({"--nproc-per-node=2", "sh", "-c", script},
                         {.folder = "/none", .worker_names_logs = true});
            }),
            0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
  ASSERT_EQ(logs.names().size(), 1U);
  const auto kept = *logs.names().begin() + "/attempt_0/";
  EXPECT_EQ(logs.read(kept + "0/stderr.log"), "early 0\n");
  EXPECT_EQ(logs.read(kept + "1/stderr.log"), "early 1\n");
  EXPECT_EQ(logs.read(kept + "1/stdout.log"), "out\n");
  EXPECT_FALSE(std::filesystem::exists(logs.file(kept + "0/stdout.log")));
  ::unsetenv("TMPDIR");
}

TEST(Run, WrongUsageIsThrownBeforeAnythingStarts) {
  EXPECT_THROW(run({"--bogus"}, {.folder = "/none"}), UsageError);
  EXPECT_THROW(run({"/no/such/program"}, {.folder = "/none"}), UsageError);
}

}  // namespace
}  // namespace lockstep::launch
