#include "lockstep/train/config/config.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

TEST(TrainConfig, TomlHasEachOptionThatIsNotEmpty) {
  const auto toml = to_toml({.data = "photos", .decay_milestones = {3, 6}, .model_ema = true});
  EXPECT_THAT(toml, HasSubstr("data-dir = \"photos\"\n"));
  EXPECT_THAT(toml, HasSubstr("decay-milestones = [3, 6]\n"));
  EXPECT_THAT(toml, HasSubstr("model-ema = true\n"));
  EXPECT_THAT(toml, HasSubstr("batch-size = 64\n"));
  EXPECT_THAT(toml, Not(HasSubstr("amp")));
}

TEST(TrainConfig, SettingsAreThoseThatChangeNumbers) {
  TrainConfig config;
  const auto before = settings_of(config);
  config.log_interval = 1;
  config.output = "elsewhere";
  config.batch_size = 1;
  EXPECT_EQ(settings_of(config), before);
  config.momentum = 0.5;
  EXPECT_EQ(difference(settings_of(config), before, "there"),
            "\n  --momentum is '0.5' here and '0.9' there");
}

TEST(TrainConfig, TheSameDataMayLieElsewhere) {
  const auto here = settings_of({.data = "/here/photos"});
  const auto there = settings_of({.data = "/there/photos"});
  EXPECT_NE(here, there);
  EXPECT_EQ(difference(without_path_of_data(here), without_path_of_data(there), "there"), "");
  const auto cached = settings_of({.data = "elsewhere", .cache = "ram"});
  EXPECT_NE(difference(without_path_of_data(cached), without_path_of_data(there), "there"), "");
  EXPECT_EQ(difference(without_places(cached), without_places(there), "there"), "");
}

TEST(TrainConfig, WhatAnOlderProgramDidNotSaveIsTheDefault) {
  const Settings saved{{"--tf32", "on"}, {"the data", "9 samples"}};
  auto here = settings_of({});
  here.emplace_back("the data", "9 samples");
  EXPECT_EQ(difference(here, with_defaults(saved), "there"),
            "\n  --tf32 is 'conv' here and 'on' there");
}

TEST(TrainConfig, WhatTheProgramChoosesItselfIsShownAsNotGiven) {
  const auto plain = settings_of({});
  EXPECT_EQ(difference(settings_of({.lr = 0.3}), plain, "there"),
            "\n  --lr is '0.3' here and not given there");
  EXPECT_EQ(difference(plain, settings_of({.hflip = 0.5}), "there"),
            "\n  --hflip is not given here and '0.5' there");
  EXPECT_EQ(difference(plain, settings_of({.amp = "bf16"}), "there"),
            "\n  --amp is not given here and 'bf16' there");
  EXPECT_EQ(difference(plain, settings_of({.hflip = 0}), "there"),
            "\n  --hflip is not given here and '0' there");
  EXPECT_EQ(difference(plain, settings_of({.mixup = 0.5}), "there"),
            "\n  --mixup is '0' here and '0.5' there")
      << "0 is what it says";
}

TEST(TrainConfig, DifferenceNamesWhatOneSideLacks) {
  EXPECT_EQ(difference({{"a", "1"}}, {{"b", "2"}}, "there"),
            "\n  a is '1' here and missing there\n  b is missing here and '2' there");
}

TEST(TrainConfig, WrongValuesNameTheFlag) {
  const auto text = [](const TrainConfig& config) {
    try {
      require_sensible(config);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(text({}), "");
  EXPECT_THAT(text({.batch_size = 0}), HasSubstr("--batch-size is 0, expected"));
  EXPECT_THAT(text({.opt = "sdg"}), HasSubstr("--opt is 'sdg', expected one of sgd"));
  EXPECT_THAT(text({.sched = "cosin"}), HasSubstr("one of cosine, linear, step, multistep"));
  EXPECT_THAT(text({.epochs = 9, .sched = "multistep"}),
              HasSubstr("has no milestones, so the learning rate would never fall; expected the "
                        "epochs after which it does; HINT: --decay-milestones 3,6"));
  EXPECT_EQ(text({.sched = "multistep", .decay_milestones = {2}}), "");
  EXPECT_THAT(text({.lr = 1, .lr_base = 1}), HasSubstr("--lr and --lr-base"));
  EXPECT_THAT(text({.epochs = 3, .warmup_epochs = 3}),
              HasSubstr("--warmup-epochs is 3, but --epochs is 3"));
  EXPECT_THAT(text({.epochs = 3, .warmup_epochs = 3}), HasSubstr("HINT: --warmup-epochs 0.3"));
  EXPECT_EQ(text({.epochs = 3, .warmup_epochs = 2.5}), "");
  EXPECT_THAT(text({.sched = "multistep", .decay_milestones = {6, 3, 6}}),
              HasSubstr("--decay-milestones is [6, 3, 6], expected epochs of 1 or more, each later "
                        "than the last; HINT: --decay-milestones 3,6"));
  EXPECT_THAT(text({.sched = "multistep", .decay_milestones = {-1}}),
              HasSubstr("HINT: --decay-milestones 30"));
  EXPECT_THAT(text({.smoothing = 2}),
              HasSubstr("--smoothing is 2, expected a number from 0 to 1; HINT: leave --smoothing "
                        "out for the default"));
  EXPECT_THAT(text({.lr = std::nan("")}),
              HasSubstr("--lr is nan, expected a number of 0 or more; HINT: leave --lr out for the "
                        "default"));
  EXPECT_THAT(text({.workers = 100'000}), HasSubstr("--workers is 100000, expected a number from"));
  EXPECT_THAT(text({.momentum = 2}), HasSubstr("HINT: leave --momentum out for 0.9"));
  EXPECT_THAT(text({.batch_size = 0}), HasSubstr("HINT: leave --batch-size out for 64"));
  EXPECT_THAT(text({.val_split = 1}), HasSubstr("HINT: leave --val-split out for 0.1"));
  EXPECT_THAT(text({.amp = "fp8"}), HasSubstr("--amp is 'fp8'"));
  EXPECT_THAT(text({.val_split = 1}), HasSubstr("--val-split is 1"));
  EXPECT_THAT(text({.max_bad = -2}), HasSubstr("--max-bad is -2"));
  EXPECT_THAT(text({.decode = "fats"}), HasSubstr("HINT: --decode fast"));
  EXPECT_THAT(text({.cache = "rum"}), HasSubstr("HINT: --cache ram"));
  EXPECT_THAT(text({.cache = "disk"}), HasSubstr("HINT: --cache-dir"));
  EXPECT_THAT(text({.cache = "ram", .cache_dir = "x"}), HasSubstr("HINT: --cache disk"));
  EXPECT_THAT(text({.cache_shorter_side = 9}), HasSubstr("HINT: --cache ram"));
  EXPECT_THAT(text({.decode = "fast", .cache = "ram"}), HasSubstr("HINT: leave --decode out"));
  EXPECT_THAT(text({.hflip = 1.5}), HasSubstr("--hflip is 1.5"));
  EXPECT_THAT(text({.crop_padding = -1}), HasSubstr("--crop-padding is -1"));
  EXPECT_EQ(text({.cache = "disk", .cache_dir = "/tmp", .hflip = 0}), "");
  EXPECT_THAT(text({.cache = "disk", .cache_dir = "/no/such"}),
              HasSubstr("--cache-dir: there is no folder '/no/such'; HINT: mkdir -p /no/such"));
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(text({.validation_batch_size = most}), HasSubstr("a number from 0 to 16777216"));
  EXPECT_THAT(text({.grad_accum = (most >> 5) + 2}), HasSubstr("--grad-accum is "))
      << "64 times that is 128 in 64 bits";
}

}  // namespace
}  // namespace lockstep::train
