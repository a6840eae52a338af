#include "lockstep/train/session/launched_job.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

TEST(LaunchedJob, RestartsAreToldByTheLauncher) {
  EXPECT_EQ(restart_count(), 0);
  EXPECT_FALSE(restarts_allowed());
  ::setenv("TORCHELASTIC_MAX_RESTARTS", "3", 1);
  ::setenv("TORCHELASTIC_RESTART_COUNT", "2", 1);
  EXPECT_EQ(restart_count(), 2);
  EXPECT_TRUE(restarts_allowed());
  ::unsetenv("TORCHELASTIC_RESTART_COUNT");
  ::unsetenv("TORCHELASTIC_MAX_RESTARTS");
}

TEST(LaunchedJob, BeganWithTheFolderOfItsFirstAttempt) {
  const toys::Folder folder;
  const auto before = std::chrono::system_clock::now();
  EXPECT_EQ(first_attempt_began(), std::nullopt);
  ::setenv("TORCHELASTIC_ERROR_FILE", (folder.path + "/attempt_1/0/error.json").c_str(), 1);
  EXPECT_EQ(first_attempt_began(), std::nullopt);
  std::filesystem::create_directories(folder.path + "/attempt_0");
  const auto began = first_attempt_began();
  ::unsetenv("TORCHELASTIC_ERROR_FILE");
  ASSERT_TRUE(began.has_value());
  EXPECT_LT(std::chrono::abs(*began - before), std::chrono::seconds(20));
}

// A script around the program is another parent in each attempt.
TEST(LaunchedJob, AJobIsKnownByTheFolderOfItsLauncher) {
  const auto job_in = [](const char* error_file) {
    ::setenv("TORCHELASTIC_ERROR_FILE", error_file, 1);
    return this_job();
  };
  const auto before = this_job();
  const auto first = job_in("/tmp/lockstep_a/attempt_0/1/error.json");
  EXPECT_EQ(job_in("/tmp/lockstep_a/attempt_1/0/error.json"), first);
  EXPECT_NE(job_in("/tmp/lockstep_b/attempt_0/1/error.json"), first);
  EXPECT_THAT(first, ::testing::EndsWith(" /tmp/lockstep_a"));
  EXPECT_EQ(job_in("/elsewhere/error.json"), before);
  ::unsetenv("TORCHELASTIC_ERROR_FILE");
}

}  // namespace
}  // namespace lockstep::train
