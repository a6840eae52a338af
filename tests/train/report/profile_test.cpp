#include "lockstep/train/report/profile.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

void make_steps(Profile& profile) {
  for (int i = 0; i < 20; ++i) {
    (void)at::rand({4, 4}).mm(at::rand({4, 4}));
    profile.on_step();
  }
}

TEST(Profile, WritesATraceOfSomeSteps) {
  const toys::Folder folder;
  Profile profile(true, folder.path);
  make_steps(profile);
  ASSERT_EQ(profile.file(), folder.path + "/trace.json");
  std::stringstream text;
  text << std::ifstream(profile.file()).rdbuf();
  EXPECT_THAT(text.str(), ::testing::HasSubstr("traceEvents"));
  EXPECT_THAT(text.str(), ::testing::HasSubstr("aten::mm"));
}

TEST(Profile, ATraceThatCannotBeWrittenIsNoFile) {
  Profile profile(true, "/nowhere");
  make_steps(profile);
  EXPECT_EQ(profile.file(), "");
  EXPECT_THAT(profile.why_not(), ::testing::HasSubstr("'/nowhere/trace.json'"));
}

TEST(Profile, DoesNothingUnlessEnabled) {
  Profile profile(false, "/nowhere");
  make_steps(profile);
  EXPECT_EQ(profile.file(), "");
}

}  // namespace
}  // namespace lockstep::train
