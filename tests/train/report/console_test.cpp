#include "lockstep/train/report/console.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "lockstep/base/fd.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/terminal.h"

namespace lockstep::train {
namespace {

TEST(Console, SaysIntervalsEpochsAndWarningsInPlainLines) {
  Pipe pipe = make_pipe();
  {
    Console console(pipe.write_end.get(), 3, BatchPlan{.steps_per_epoch = 10}, "images");
    Interval interval;
    interval.position = {.epoch = 0, .step_in_epoch = 5, .step = 5};
    interval.train.loss = 1.25;
    interval.samples_per_second = 321;
    interval.gpu = GpuUse{.utilization = 97, .memory_bytes = {}, .memory_total = {}, .watts = {}};
    interval.slow_rank = "rank 1 is slow";
    console.on_slow_rank("rank 2 is slow");
    console.on_step(interval.position);
    console.on_interval(interval);
    console.on_epoch({.position = {.epoch = 0},
                      .train = {.loss = 1.5},
                      .validation = {.top1 = 87.5},
                      .samples_per_second = 123,
                      .is_best = true});
    console.on_epoch({.position = {.epoch = 1}, .validation = {.loss = 0.5}});
    console.on_test({}, {.loss = 0.75, .top1 = 81.5, .top5 = 95, .samples = 50});
    console.on_warning("the disk is full");
    EXPECT_THAT(console.warnings(), ::testing::ElementsAre("the disk is full"));
    console.on_warning("the disk is full");
    EXPECT_THAT(console.warnings(), ::testing::ElementsAre("2 times: the disk is full"));
  }
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(::read(pipe.read_end.get(), text.data(), text.size())));
  EXPECT_THAT(text, ::testing::HasSubstr("epoch 1/3  5/10"));
  EXPECT_THAT(text, ::testing::HasSubstr("loss 1.25"));
  EXPECT_THAT(text, ::testing::HasSubstr("gpu 97%"));
  EXPECT_THAT(text, ::testing::HasSubstr("rank 1 is slow"));
  EXPECT_THAT(text, ::testing::HasSubstr("rank 2 is slow\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("mem [0-9.]+ [MG]iB"));
  EXPECT_THAT(text, ::testing::HasSubstr("epoch 1 of 3: loss 1.5000, accuracy 87.50 %"));
  EXPECT_THAT(text, ::testing::HasSubstr(", 123 images/s, best\n")) << "the epoch's rate";
  EXPECT_THAT(text, ::testing::HasSubstr("validation loss 0.5000\n")) << "it was trained before";
  EXPECT_THAT(text, ::testing::HasSubstr(
                        "test: accuracy 81.50 %, top-5 95.00 %, loss 0.7500 of 50 images"));
  EXPECT_THAT(text, ::testing::HasSubstr("WARNING: the disk is full"));
}

TEST(Console, ACopyHasPlainLinesWhateverTheTerminalShows) {
  const test::TemporaryFolder folder;
  const test::Terminal terminal(40);
  OutputLog copy;
  Console console(terminal.fd(), 3, BatchPlan{.steps_per_epoch = 10}, "images", &copy);
  console.say("three ranks");
  copy.open(folder.file("log"), [](const std::string& text) { FAIL() << text; });
  console.on_interval({.position = {.step_in_epoch = 5, .step = 5}, .train = {.loss = 1.25}});
  console.on_epoch({.train = {.loss = 1.5}, .validation = {.top1 = 87.5}});
  console.on_warning("the disk is full");
  const auto text = folder.read("log");
  EXPECT_THAT(text, ::testing::StartsWith("three ranks\nepoch 1/3  5/10  "));
  EXPECT_THAT(text, ::testing::HasSubstr("\nepoch 1 of 3: loss 1.5000, accuracy 87.50 %, top-5 "));
  EXPECT_THAT(text, ::testing::EndsWith("\nWARNING: the disk is full\n"));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("\x1b")));
}

TEST(Console, AWarningIsPrintedOnceAndCounted) {
  const test::TemporaryFolder folder;
  const test::Terminal terminal(80);
  OutputLog copy;
  Console console(terminal.fd(), 3, BatchPlan{.steps_per_epoch = 10}, "images", &copy);
  copy.open(folder.file("log"), [](const std::string& text) { FAIL() << text; });
  for (int i = 0; i < 28; ++i) {
    console.on_warning("the folder is gone");
  }
  console.on_warning("the disk is full");
  EXPECT_EQ(folder.read("log"), "WARNING: the folder is gone\nWARNING: the disk is full\n");
  EXPECT_THAT(console.warnings(),
              ::testing::UnorderedElementsAre("28 times: the folder is gone", "the disk is full"));
}

TEST(Console, TheLineOfAnEpochFitsTheTerminal) {
  const test::Terminal terminal(80);
  Console console(terminal.fd(), 300, BatchPlan{.steps_per_epoch = 10}, "images");
  console.on_epoch({.position = {.epoch = 199},
                    .train = {.loss = 1.5},
                    .validation = {.loss = 0.25, .top1 = 87.5, .top5 = 99.25},
                    .samples_per_second = 123456,
                    .is_best = true});
  const auto text = terminal.read();
  const auto begin = text.find("epoch 200 of 300: loss 1.5000");
  ASSERT_NE(begin, std::string::npos) << text;
  const auto line = text.substr(begin, text.find('\r', begin) - begin);
  EXPECT_LT(line.size(), 80U) << line;
  EXPECT_THAT(line, ::testing::HasSubstr("acc 87.50 %, "));
  EXPECT_THAT(line, ::testing::HasSubstr("val loss 0.2500"));
  EXPECT_THAT(line, ::testing::EndsWith(", best"));
}

}  // namespace
}  // namespace lockstep::train
