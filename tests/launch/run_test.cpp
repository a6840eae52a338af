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
  EXPECT_EQ(exit_code_of([] { return run({"--nproc-per-node=2", "sh", "-c", "exit 6"}, "/none"); }),
            6);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
  ::unsetenv("TMPDIR");
}

TEST(Run, WrongUsageIsThrownBeforeAnythingStarts) {
  EXPECT_THROW(run({"--bogus"}, "/none"), UsageError);
  EXPECT_THROW(run({"/no/such/program"}, "/none"), UsageError);
}

}  // namespace
}  // namespace lockstep::launch
