#include "lockstep/train/loop/validate.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/spawn.h"
#include "tests/support/child.h"
#include "tests/train/loop/toys.h"

namespace lockstep::train {
namespace {

TEST(Validate, SeesEverySampleOnceAndLeavesTheNetworkTraining) {
  const TrainConfig config;
  const auto world = init_process_group();
  Learner learner(config, BatchPlan{8, 1, 8, 1, 8}, toys::network(), world);
  const auto source = toys::table();
  data::DataLoader loader(source.validation,
                          {.batch_size = 8, .sampler = data::EvaluationSampler(30, 1, 0)});
  EXPECT_EQ(validate(learner, loader, world)->samples, 30);
  EXPECT_EQ(validate(learner, loader, world, {.batches = 2})->samples, 16);
  EXPECT_TRUE(learner.module().is_training());
}

TEST(Validate, StopsBetweenBatches) {
  const TrainConfig config;
  const auto world = init_process_group();
  Learner learner(config, BatchPlan{8, 1, 8, 1, 8}, toys::network(), world);
  const auto source = toys::table();
  data::DataLoader loader(source.validation,
                          {.batch_size = 8, .sampler = data::EvaluationSampler(30, 1, 0)});
  int asked = 0;
  EXPECT_FALSE(validate(learner, loader, world, {.is_stopped = [&] { return ++asked == 3; }}));
  EXPECT_EQ(asked, 3);
}

TEST(Validate, RanksWithFewerBatchesAskAsOften) {
  const int status = test::run_in_child([] {
    spawn(2, [](int rank) {
      const TrainConfig config;
      const auto world = init_process_group({.backend = "gloo"});
      Learner learner(config, BatchPlan{8, 1, 8, 1, 8}, toys::network(), world);
      const auto source = toys::table(96, 17);  // 9 and 8 samples: two batches and one.
      data::DataLoader loader(source.validation,
                              {.batch_size = 8, .sampler = data::EvaluationSampler(17, 2, rank)});
      int asked = 0;
      const auto scores =
          validate(learner, loader, world, {.is_stopped = [&] { return ++asked > 9; }});
      if (asked != 2 || scores->samples != 17) {
        throw UsageError("rank " + std::to_string(rank) + " asked " + std::to_string(asked));
      }
    });
    return 0;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lockstep::train
