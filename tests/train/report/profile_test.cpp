#include "lockstep/train/report/profile.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

TEST(Profile, WritesATraceOfSomeSteps) {
  const toys::Folder folder;
  Profile profile(true, folder.path);
  for (int i = 0; i < 20; ++i) {
    (void)at::rand({4, 4}).mm(at::rand({4, 4}));
    profile.on_step();
  }
  ASSERT_EQ(profile.file(), folder.path + "/trace.json");
  std::stringstream text;
  text << std::ifstream(profile.file()).rdbuf();
  EXPECT_THAT(text.str(), testing::HasSubstr("traceEvents"));
  EXPECT_THAT(text.str(), testing::HasSubstr("aten::mm"));
}

TEST(Profile, ATraceThatCannotBeWrittenIsNoFile) {
  Profile profile(true, "/nowhere");
  for (int i = 0; i < 20; ++i) {
    profile.on_step();
  }
  EXPECT_EQ(profile.file(), "");
  EXPECT_THAT(profile.why_not(), testing::HasSubstr("'/nowhere/trace.json'"));
}

TEST(Profile, DoesNothingUnlessEnabled) {
  Profile profile(false, "/nowhere");
  for (int i = 0; i < 20; ++i) {
    profile.on_step();
  }
  EXPECT_EQ(profile.file(), "");
}

}  // namespace
}  // namespace lockstep::train
