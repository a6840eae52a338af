#include "lockstep/train/session/describe_run.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "lockstep/base/host.h"
#include "lockstep/comm/spawn.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

TEST(DescribePlaces, HasALineForEachHost) {
  EXPECT_EQ(describe_places({{"n1", 4}, {"n1", 5}, {"n1", 7}, {"n2", 0}}),
            "n1: ranks 0-2 on GPUs 4-5, 7\nn2: rank 3 on GPU 0");
  EXPECT_EQ(describe_places({{"n1", -1}, {"n2", -1}, {"n1", -1}}),
            "n1: ranks 0, 2 on the CPU\nn2: rank 1 on the CPU");
}

TEST(DescribePlaces, RanksMayShareAGpu) {
  EXPECT_EQ(describe_places({{"n1", 3}, {"n1", 3}}), "n1: ranks 0-1 on GPU 3");
}

TEST(DescribePlaces, OfManyHostsTheFirstAreNamed) {
  std::vector<Place> places;
  for (int host = 1; host <= 20; ++host) {
    places.push_back({"n" + std::to_string(host), 0});
  }
  EXPECT_THAT(describe_places(places),
              ::testing::AllOf(::testing::StartsWith("n1: rank 0 on GPU 0\n"),
                               ::testing::EndsWith("\nand 12 more hosts")));
}

TEST(PlacesOf, AreThoseOfAllRanks) {
  EXPECT_NO_THROW(spawn(2, [](int /*rank*/) {
    const auto text = describe_places(places_of(init_process_group()));
    if (text != host_name() + ": ranks 0-1 on the CPU") {
      throw std::runtime_error(text);
    }
  }));
}

TEST(DescribeRun, SaysWhatIsTrainedOnWhat) {
  const TrainConfig config{.model = "own", .epochs = 5};
  const auto source = toys::table();
  const BatchPlan batches{.per_rank = 8, .global = 8, .steps_per_epoch = 12};
  const auto text = describe_run({config, source, batches, 15}, init_process_group());
  EXPECT_THAT(text, ::testing::HasSubstr("\n" + host_name() + ": rank 0 on the CPU\n"));
  EXPECT_THAT(text, ::testing::HasSubstr("96 training and 30 validation rows in 3 classes from "));
  EXPECT_THAT(text,
              ::testing::HasSubstr("own with 15 parameters; 5 epochs of 12 steps of 8 (8 x 1"));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("dry run")));
}

TEST(DescribeOptimizer, HasTheRateThatIsChosen) {
  EXPECT_EQ(describe_optimizer({.opt = "adamw"}, {}), "adamw with learning rate 0.001, cosine");
  EXPECT_EQ(describe_optimizer({.lr_base = 0.2, .sched = "step"}, {.global = 128}),
            "sgd with learning rate 0.1, step");
}

TEST(DescribeRun, SaysThatScoresAreOfAveragedWeights) {
  const BatchPlan batches{.per_rank = 8, .global = 8, .steps_per_epoch = 100};
  TrainConfig config{.model = "own", .epochs = 1, .model_ema = true};
  EXPECT_THAT(
      describe_run({config, toys::table(), batches, 15}, init_process_group()),
      ::testing::HasSubstr(
          "\nmodel EMA 0.9998: validation and best.pt are of the averaged weights, which are "
          "the first ones by 98 % still after all 100 steps"));
  config.epochs = 1000;
  EXPECT_THAT(describe_ema(config, batches), ::testing::EndsWith("of the averaged weights"));
  config.model_ema = false;
  EXPECT_EQ(describe_ema(config, batches), "");
}

TEST(DescribeRun, OneRankOfADryRunSpeaksForAll) {
  const TrainConfig config{.model = "own", .dry_run = true, .planned_ranks = 3};
  const BatchPlan batches{.per_rank = 8, .global = 24, .steps_per_epoch = 4};
  const auto text = describe_run({config, toys::table(), batches, 15}, init_process_group());
  EXPECT_THAT(text, ::testing::HasSubstr("\ndry run: 3 ranks would be started"));
  EXPECT_THAT(text, ::testing::HasSubstr("4 steps of 24 (8 x 3 ranks)"));
}

}  // namespace
}  // namespace lockstep::train
