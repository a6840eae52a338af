#include "lockstep/train/run/progress_line.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Progress small_run() {
  return {.epoch = 2,
          .epochs = 10,
          .step = 412,
          .steps = 938,
          .seconds_left = 63,
          .loss = 0.42131,
          .top1 = 87.125,
          .lr = 0.02,
          .samples_per_second = 12345,
          .data_wait = 0.031,
          .communication_wait = 0.052,
          .memory_bytes = std::uint64_t{512} << 20};
}

Progress imagenet_run() {
  return {.epoch = 10,
          .epochs = 90,
          .step = 1251,
          .steps = 5004,
          .seconds_left = 83 * 3600 + 45 * 60 + 7,
          .loss = 6.91234,
          .top1 = 12.345,
          .lr = 0.0123456,
          .samples_per_second = 4702,
          .data_wait = 0.12,
          .communication_wait = 0.34,
          .memory_bytes = std::uint64_t{24} << 30,
          .gpu = GpuUse{.utilization = 97, .memory_bytes = std::uint64_t{23} << 30, .watts = 612}};
}

TEST(ProgressLine, HasAllPartsIn80Columns) {
  EXPECT_EQ(progress_line(small_run(), {.width = 80}),
            "2/10 [===>     ] 412/938 1:03 loss 0.4213 top1 87.1 lr 0.02 12.3k/s d3% c5% 512M");
}

TEST(ProgressLine, SpellsThePartsOutWhereThereIsSpace) {
  EXPECT_EQ(progress_line(small_run(), {.width = 140}),
            "epoch 2/10 [=========>            ] 412/938 ETA 1:03 loss 0.4213 top1 87.12 lr 0.02 "
            "12.3k img/s data 3% comm 5% mem 512 MiB");
}

TEST(ProgressLine, LeavesOutTheBarAndThenTheLeastImportant) {
  EXPECT_EQ(progress_line(imagenet_run(), {.width = 87}),
            "10/90 1251/5004 3d 11:45 loss 6.912 top1 12.3 lr 0.012 4702/s d12% c34% gpu97% 23G "
            "612W");
  EXPECT_EQ(progress_line(imagenet_run(), {.width = 40}), "10/90 1251/5004 3d11h loss 6.91 12.3%");
}

// A terminal of 80 columns has lines of 79.
TEST(ProgressLine, HasTheGpusUseMemoryAndPowerIn80Columns) {
  EXPECT_EQ(progress_line(imagenet_run(), {.width = 79}),
            "10/90 1251/5004 3d11h loss 6.91 12.3% lr 0.012 4702/s d12% c34% gpu97% 23G 612W");
  auto short_run = imagenet_run();
  short_run.epoch = 1;
  short_run.epochs = 3;
  short_run.step = 12;
  short_run.steps = 390;
  short_run.seconds_left = 600;
  short_run.top1 = 0.4;
  short_run.lr = 0.1;
  short_run.data_wait = 0.01;
  short_run.communication_wait = 0.004;
  EXPECT_EQ(progress_line(short_run, {.width = 79}),
            "1/3 12/390 10:00 loss 6.912 top1 0.4 lr 0.1 4702/s d1% c0% 24G gpu97% 23G 612W");
}

TEST(ProgressLine, KeepsTheGpusMemoryBesideLargeNumbers) {
  auto large_run = imagenet_run();
  large_run.epoch = 100;
  large_run.epochs = 300;
  large_run.step = 12510;
  large_run.steps = 50040;
  large_run.lr = 0.0012345;
  large_run.samples_per_second = 47021;
  large_run.gpu->utilization = 100;
  large_run.gpu->memory_bytes = std::uint64_t{139} << 30;
  EXPECT_EQ(progress_line(large_run, {.width = 79}),
            "100/300 12510/50040 3d11h loss 6.91 12.3% 47.0k/s d12% c34% gpu100% 139G");
}

TEST(ProgressLine, IsNeverWiderThanTheTerminal) {
  for (const auto& progress : {small_run(), imagenet_run(), Progress{}}) {
    for (int width = 1; width < 200; ++width) {
      EXPECT_LE(progress_line(progress, {.width = width}).size(), static_cast<std::size_t>(width));
    }
    EXPECT_LE(progress_line(progress, {.width = -3}).size(), 1U);
  }
}

TEST(ProgressLine, TheBarGrowsFromEmptyToFull) {
  Progress progress{.epochs = 1, .steps = 10};
  EXPECT_THAT(progress_line(progress, {.width = 30}), HasSubstr("[>            ]"));
  progress.step = 5;
  EXPECT_THAT(progress_line(progress, {.width = 30}), HasSubstr("[======>      ]"));
  progress.step = 10;
  EXPECT_THAT(progress_line(progress, {.width = 31}), HasSubstr("[=============]"));
  progress.step = 25;
  EXPECT_THAT(progress_line(progress, {.width = 31}), HasSubstr("[=============]"));
  progress.steps = 0;
  EXPECT_THAT(progress_line(progress, {.width = 31}), HasSubstr("[>"));
}

TEST(ProgressLine, ColorsTakeNoWidth) {
  const auto plain = progress_line(small_run(), {.width = 80});
  auto colored = progress_line(small_run(), {.width = 80, .color = true});
  EXPECT_NE(colored, plain);
  for (const std::string code : {"\x1b[36m", "\x1b[0m"}) {
    ASSERT_THAT(colored, HasSubstr(code));
    colored.erase(colored.find(code), code.size());
  }
  EXPECT_EQ(colored, plain);
}

TEST(ProgressLine, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ(progress_line({.epochs = 3, .step = 1, .steps = 4}, {.width = 24}),
            "epoch 1/3 [==>     ] 1/4");
}

TEST(ProgressLine, NumbersThatAreNoneAreShown) {
  auto progress = small_run();
  progress.loss = std::nan("");
  progress.seconds_left = std::numeric_limits<double>::infinity();
  EXPECT_THAT(progress_line(progress, {.width = 120}), HasSubstr("ETA ? loss nan"));
}

TEST(PlainLine, HasEverythingAndNoBar) {
  auto progress = imagenet_run();
  EXPECT_EQ(plain_line(progress),
            "epoch 10/90  1251/5004  ETA 3d 11:45  loss 6.9123  top1 12.35  lr 0.01235  "
            "4702 img/s  data 12%  comm 34%  mem 24 GiB  gpu 97% 23 GiB  612 W");
  progress.phase = "validation";
  EXPECT_THAT(plain_line(progress), StartsWith("validation 10/90  "));
  progress.gpu = GpuUse{};
  EXPECT_THAT(plain_line(progress), Not(HasSubstr("gpu")));
}

TEST(FittedLine, ShortensThenLeavesOutTheLeastImportant) {
  const std::vector<LinePart> parts{
      {"epoch 1", "1", 1}, {"loss 0.5", {}, 0}, {"50 images/s", "50/s", 2}};
  EXPECT_EQ(fitted_line(parts, 30, ", "), "epoch 1, loss 0.5, 50 images/s");
  EXPECT_EQ(fitted_line(parts, 29, ", "), "epoch 1, loss 0.5, 50/s");
  EXPECT_EQ(fitted_line(parts, 17, ", "), "1, loss 0.5, 50/s");
  EXPECT_EQ(fitted_line(parts, 16, ", "), "1, loss 0.5");
  EXPECT_EQ(fitted_line(parts, 3, ", "), "loss 0.5");
}

TEST(ClockText, CountsMinutesHoursAndDays) {
  EXPECT_EQ(clock_text(0), "0:00");
  EXPECT_EQ(clock_text(6.6), "0:07");
  EXPECT_EQ(clock_text(59.7), "1:00");
  EXPECT_EQ(clock_text(3723), "1:02:03");
  EXPECT_EQ(clock_text(3 * 86400 + 4 * 3600), "3d 04:00");
  EXPECT_EQ(clock_text(-1), "?");
  EXPECT_EQ(clock_text(std::nan("")), "?");
  EXPECT_EQ(clock_text(1e300), "?");
}

TEST(ShortNumber, HasAtMostFourDigits) {
  EXPECT_EQ(short_number(0), "0.00");
  EXPECT_EQ(short_number(9.994), "9.99");
  EXPECT_EQ(short_number(9.996), "10.0");
  EXPECT_EQ(short_number(87.54), "87.5");
  EXPECT_EQ(short_number(99.96), "100");
  EXPECT_EQ(short_number(1234.4), "1234");
  EXPECT_EQ(short_number(9999.4), "9999");
  EXPECT_EQ(short_number(9999.6), "10.0k");
  EXPECT_EQ(short_number(4'560'000), "4560k");
  EXPECT_EQ(short_number(45'600'000), "45.6M");
  EXPECT_EQ(short_number(std::nan("")), "nan");
}

TEST(ShortSize, HasAFractionWhereItSaysSomething) {
  EXPECT_EQ(short_size(0), "0 B");
  EXPECT_EQ(short_size(1000), "1000 B");
  EXPECT_EQ(short_size(1536), "1.5 KiB");
  EXPECT_EQ(short_size(std::uint64_t{512} << 20), "512 MiB");
  EXPECT_EQ(short_size((std::uint64_t{1023} << 20) + (1 << 19)), "1.0 GiB");
  EXPECT_EQ(short_size(std::uint64_t{139} << 30), "139 GiB");
}

}  // namespace
}  // namespace lockstep::train
