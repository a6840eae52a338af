#include "lockstep/train/run/output_log.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/support/temporary_folder.h"

namespace lockstep::train {
namespace {

TEST(OutputLog, HasWhatCameBeforeItsFile) {
  const test::TemporaryFolder folder;
  OutputLog log;
  log.write("a\n");
  log.open(folder.file("deep/log/stdout.log"), [](const std::string& text) { FAIL() << text; });
  log.write("b\n");
  EXPECT_EQ(folder.read("deep/log/stdout.log"), "a\nb\n");
  struct stat info{};
  ASSERT_EQ(::stat(folder.file("deep/log/stdout.log").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  log.close();
  log.write("c\n");
  EXPECT_EQ(folder.read("deep/log/stdout.log"), "a\nb\n");
}

TEST(OutputLog, AFullDiskIsAWarning) {
  std::vector<std::string> warnings;
  OutputLog log;
  log.write("a\n");
  log.open("/dev/full", [&](const std::string& text) {
    warnings.push_back(text);
    log.write(text);  // As a console that keeps all it prints.
  });
  log.write("b\n");
  EXPECT_THAT(warnings, ::testing::ElementsAre(::testing::HasSubstr(
                            "'/dev/full' ends here; training goes on: No space left on device")));
  OutputLog nowhere;
  nowhere.open("/proc/nothing/log", [&](const std::string& text) { warnings.push_back(text); });
  EXPECT_EQ(warnings.size(), 2U);
}

}  // namespace
}  // namespace lockstep::train
