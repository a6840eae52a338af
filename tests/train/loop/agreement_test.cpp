#include "lockstep/train/loop/agreement.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"
#include "tests/support/child.h"

namespace lockstep::train {
namespace {

TEST(RequireSame, RanksWithOtherSettingsShowBothSides) {
  const int status = test::run_in_child([] {
    spawn(2, [](int rank) {
      const auto world = init_process_group({.backend = "gloo"});
      require_same(world, {{"--lr", "1"}});
      try {
        require_same(world, {{"--lr", std::to_string(rank)}});
      } catch (const UsageError& error) {
        const std::string text = error.what();
        if (text.find("--lr is '1' here and not given on rank 0") != std::string::npos) {
          return;
        }
      }
      throw UsageError("no difference was found");
    });
    return 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(Largest, IsTheSameOnAllRanks) {
  const int status = test::run_in_child([] {
    spawn(2, [](int rank) {
      if (largest(init_process_group({.backend = "gloo"}), rank * 15) != 15) {
        throw UsageError("another number");
      }
    });
    return 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(SettingsOfRank, AreProgramNumbersDataAndMeetings) {
  const auto settings = settings_of_rank({.lr = 0.5, .log_interval = 7}, {.steps_per_epoch = 12},
                                         {.index = "9 samples"});
  for (const auto& [name, value] : Settings{{"--lr", "0.5"},
                                            {"the data", "9 samples"},
                                            {"steps in an epoch", "12"},
                                            {"--log-interval", "7"}}) {
    EXPECT_THAT(settings, ::testing::Contains(::testing::Pair(name, value)));
  }
  EXPECT_THAT(settings, ::testing::Contains(::testing::Pair("the program", ::testing::_)));
}

TEST(SettingsOfRank, HaveWhatMakesARankMeetOrLeaveAlone) {
  const auto plain = settings_of_rank({}, {}, {});
  EXPECT_EQ(settings_of_rank({.data = "/elsewhere/photos"}, {}, {}), plain);
  EXPECT_NE(settings_of_rank({.strict = true}, {}, {}), plain);
  EXPECT_NE(settings_of_rank({.nonfinite = "skip"}, {}, {}), plain);
  EXPECT_NE(settings_of_rank({.max_bad = 3}, {}, {}), plain);
}

TEST(ProgramOfThisRank, NamesTheBuildsOfLibTorchThatAreLoaded) {
  EXPECT_THAT(
      program_of_this_rank(),
      ::testing::Contains(::testing::Pair(
          "LibTorch", ::testing::MatchesRegex("built for 2.*, libc10.so [0-9a-f]+, libtorch_cpu.so "
                                              "[0-9a-f]+"))));
}

}  // namespace
}  // namespace lockstep::train
