#include "lockstep/train/session/summary.h"

#include <gmock/gmock.h>

#include <csignal>

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

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

TEST(Summary, TheTimeIsThatOfTheWholeJobOrSaysWhatItCovers) {
  const TrainConfig config;
  auto end = outcome();
  end.seconds = 12;
  SummaryFacts facts{config, end, 2, {}, {}};
  EXPECT_THAT(summary_text(facts), HasSubstr("  time       12.0 s, 100 images/s"));
  facts.is_resumed = true;
  EXPECT_THAT(summary_text(facts), HasSubstr("12.0 s (time of the last start), 100 images/s"));
  facts.restarts = 1;
  EXPECT_THAT(summary_text(facts), HasSubstr("12.0 s (time of the last start), 100 images/s"));
  facts.seconds_of_job = 40;
  EXPECT_THAT(summary_text(facts), HasSubstr("  time       40.0 s with restarts, 100 images/s"));
  EXPECT_THAT(summary_json(facts), HasSubstr("\"seconds\": 40,"));
}

TEST(Summary, TellsNoRateOfNothingAndNoBestThatIsElsewhere) {
  const TrainConfig config;
  auto end = outcome();
  const std::vector<std::string> files{"runs/a/checkpoints/last.pt"};
  EXPECT_THAT(summary_text({config, end, 2, files, {}}), ::testing::Not(HasSubstr("best")));
  end.samples = 0;
  EXPECT_THAT(summary_text({config, end, 2, files, {}}), ::testing::Not(HasSubstr("images/s")));
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
    EXPECT_THAT(text, ::testing::Not(HasSubstr("from here")));
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
  EXPECT_THAT(text, ::testing::Not(HasSubstr("could not")));
  EXPECT_EQ(exit_code_of(end), 75);
}

TEST(Summary, ProgramsGetAListOfFilesAndEpochsFromOne) {
  const TrainConfig config;
  const auto end = outcome();
  const auto json = summary_json({config, end, 2, {"my runs/a.pt", "b.pt"}, {}});
  EXPECT_THAT(json, HasSubstr("\"files\": [\"my runs/a.pt\", \"b.pt\"]"));
  EXPECT_THAT(json, HasSubstr("\"best_epoch\": 2"));
}

TEST(Summary, TellsTheTestPartAndBadFiles) {
  const TrainConfig config;
  auto end = outcome();
  end.test = Scores{.loss = 0.75, .top1 = 81.5, .top5 = 95, .samples = 50};
  SummaryFacts facts{config, end, 2, {}, {}};
  facts.bad_files = 1;
  facts.data = {"1 file cannot be read", "1: it is empty"};
  EXPECT_THAT(summary_text(facts),
              HasSubstr("  test       Acc@1 81.50 %, Acc@5 95.00 %, loss 0.7500\n"));
  EXPECT_THAT(summary_text(facts),
              HasSubstr("  data       1 file cannot be read\n             1: it is empty\n"));
  EXPECT_THAT(summary_json(facts),
              HasSubstr("\"test_loss\": 0.75, \"test_top1\": 81.5, \"test_top5\": 95, "
                        "\"test_samples\": 50, \"bad_files\": 1, "));
  EXPECT_THAT(summary_json(facts), ::testing::Not(HasSubstr("bad_file_list")));
  facts.bad_file_list = {"'a.jpg': it is empty", "'b.jpg': it is empty"};
  EXPECT_THAT(
      summary_json(facts),
      HasSubstr("\"bad_file_list\": [\"'a.jpg': it is empty\", \"'b.jpg': it is empty\"], "));
  EXPECT_THAT(evaluation_text({.top1 = 50}, false, end.test),
              HasSubstr("\ntest: loss 0.7500, accuracy 81.50 %, top-5 95.00 % of 50 samples\n"));
  EXPECT_THAT(evaluation_text({.top1 = 50}, true, end.test), HasSubstr("\"test_top1\": 81.5"));
  end.stopped_by = SIGTERM;
  end.position.epoch = config.epochs;
  EXPECT_THAT(summary_text({config, end, 2, {}, {}}),
              HasSubstr("stopped by SIGTERM before the test part was scored"));
}

TEST(Summary, JsonHasNoScoresThatWereNotMeasured) {
  const TrainConfig config;
  Outcome end;
  end.stopped_by = SIGINT;
  const auto text = summary_json({config, end, 1, {}, {}});
  EXPECT_THAT(text, ::testing::Not(HasSubstr("eval_")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("best_")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("test_")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("bad_files")));
}

}  // namespace
}  // namespace lockstep::train
