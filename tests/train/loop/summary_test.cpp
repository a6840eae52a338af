#include "lockstep/train/loop/summary.h"

#include <gmock/gmock.h>

#include <csignal>

namespace lockstep::train {
namespace {

using testing::HasSubstr;

Outcome outcome() {
  Outcome outcome;
  outcome.position = {.epoch = 2, .step = 20, .best_top1 = 90, .best_epoch = 1};
  outcome.last = {.loss = 0.5, .top1 = 89, .top5 = 99, .samples = 100};
  outcome.samples = 1000;
  outcome.times = {.total = 10, .data = 1, .communication = 2};
  return outcome;
}

TEST(Summary, TellsAccuracySpeedSharesAndFiles) {
  const TrainConfig config;
  const auto end = outcome();
  const auto text = summary_text({config, end, 2, {"runs/a/checkpoints/best.pt"}, {}});
  EXPECT_THAT(text, HasSubstr("finished 2 epochs"));
  EXPECT_THAT(text, HasSubstr("Acc@1 89"));
  EXPECT_THAT(text, HasSubstr("100 images/s on 2 ranks"));
  EXPECT_THAT(text, HasSubstr("communication 20 %, data wait 10 %"));
  EXPECT_THAT(text, HasSubstr("lockstep inspect runs/a/checkpoints/best.pt"));
}

TEST(Summary, TellsHowBusyTheGpuWas) {
  const TrainConfig config;
  auto end = outcome();
  end.gpu.add({.utilization = 97, .memory_bytes = {}, .memory_total = {}, .watts = 650});
  EXPECT_THAT(summary_text({config, end, 2, {}, {}}), HasSubstr("97 % busy"));
  EXPECT_THAT(summary_json({config, end, 2, {}, {}}), HasSubstr("\"gpu_utilization\": 97"));
}

TEST(Summary, JsonHasStateAndCode) {
  const TrainConfig config;
  auto end = outcome();
  end.stopped_by = SIGUSR1;
  const auto text = summary_json({config, end, 2, {}, {}});
  EXPECT_THAT(text, HasSubstr("\"state\": \"stopped\""));
  EXPECT_THAT(text, HasSubstr("\"exit_code\": 75"));
  EXPECT_THAT(evaluation_text({.top1 = 50}, true), HasSubstr("\"eval_top1\": 50"));
}

const std::vector<std::string> kFiles{"runs/a/config.toml", "runs/a/checkpoints/last.pt"};

TEST(Summary, AStopGoesOnFromItsCheckpoint) {
  TrainConfig config;
  auto end = outcome();
  end.stopped_by = SIGTERM;
  EXPECT_THAT(summary_text({config, end, 2, kFiles, {}}),
              HasSubstr("the same command goes on from here"));
  EXPECT_EQ(exit_code_of(end), 143);
  for (const char* resume : {"no", "best", "other.pt"}) {
    config.resume = resume;
    EXPECT_THAT(summary_text({config, end, 2, kFiles, {}}),
                HasSubstr("the same command with --resume runs/a goes on from here"))
        << resume << " would start elsewhere";
  }
}

TEST(Summary, AStopWithoutItsCheckpointPromisesNoMoreThanThereIs) {
  const TrainConfig config;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    auto end = outcome();
    end.stopped_by = signal;
    end.is_saved = false;
    const auto text = summary_text({config, end, 2, kFiles, {}});
    EXPECT_THAT(text, HasSubstr("step 0, but the last checkpoint could not be saved"));
    EXPECT_THAT(text, HasSubstr("goes on from the last checkpoint that was saved"));
    EXPECT_THAT(text, testing::Not(HasSubstr("from here")));
    EXPECT_THAT(summary_text({config, end, 2, {}, {}}), HasSubstr("starts anew"));
    EXPECT_EQ(exit_code_of(end), 74);
    EXPECT_THAT(summary_json({config, end, 2, {}, {}}), HasSubstr("\"exit_code\": 74"));
  }
}

// --fast-dev-run was to save nothing, so nothing is lost, but nothing goes on either.
TEST(Summary, AStopOfARunWithoutFilesStartsAnew) {
  TrainConfig config;
  config.fast_dev_run = 3;
  auto end = outcome();
  end.stopped_by = SIGUSR1;
  const auto text = summary_text({config, end, 2, {}, {}});
  EXPECT_THAT(text, HasSubstr("nothing was saved: the same command starts anew"));
  EXPECT_THAT(text, testing::Not(HasSubstr("could not")));
  EXPECT_EQ(exit_code_of(end), 75);
}

TEST(Summary, JsonHasNoScoresThatWereNotMeasured) {
  const TrainConfig config;
  Outcome end;
  end.stopped_by = SIGINT;
  const auto text = summary_json({config, end, 1, {}, {}});
  EXPECT_THAT(text, testing::Not(HasSubstr("eval_")));
  EXPECT_THAT(text, testing::Not(HasSubstr("best_")));
}

}  // namespace
}  // namespace lockstep::train
