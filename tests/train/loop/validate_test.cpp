#include "lockstep/train/loop/validate.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(validate(learner, loader, world).samples, 30);
  EXPECT_EQ(validate(learner, loader, world, 2).samples, 16);
  EXPECT_TRUE(learner.module().is_training());
}

}  // namespace
}  // namespace lockstep::train
