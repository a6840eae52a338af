#include "lockstep/train/input/loaders.h"

#include <gtest/gtest.h>

#include <iterator>

#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

// Samples in each batch of one epoch.
std::vector<std::int64_t> batch_sizes(data::DataLoader loader) {
  std::vector<std::int64_t> sizes;
  for (auto batch = loader.begin(); batch != std::default_sentinel; ++batch) {
    sizes.push_back(batch->data.size(0));
  }
  return sizes;
}

TEST(Loaders, TrainingLeavesTheRestOfAnEpochOutAndValidationNothing) {
  const TrainConfig config{.batch_size = 20, .validation_batch_size = 8};
  const auto source = toys::table(96, 30);
  const auto world = init_process_group();
  const auto batches = plan_batches(config, 96, 1);
  EXPECT_EQ(batch_sizes(train_loader(config, source, batches, world)),
            (std::vector<std::int64_t>{20, 20, 20, 20}));
  EXPECT_EQ(batch_sizes(evaluation_loader(config, source.validation, batches, world)),
            (std::vector<std::int64_t>{8, 8, 8, 6}));
}

}  // namespace
}  // namespace lockstep::train
