#include "lockstep/nn/batch_norm.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/nn/ranks_in_turn.h"

namespace lockstep::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::run_in_threads;
using ::testing::ThrowsMessage;

at::Tensor images(int rank) {
  return at::arange(48, at::kFloat).add(rank * 7).sin().view({2, 6, 2, 2});
}

TEST(BatchNorm, IsTorchsUntilItIsSynchronized) {
  BatchNorm2d own(6);
  torch::nn::BatchNorm2d expected(6);
  EXPECT_THAT(own->named_parameters().keys(), ElementsAre("weight", "bias"));
  EXPECT_EQ(own->named_buffers().keys(), expected->named_buffers().keys());
  EXPECT_TRUE(own(images(0)).equal(expected(images(0))));
  EXPECT_TRUE(own->running_var.equal(expected->running_var));
  own->eval();
  expected->eval();
  EXPECT_TRUE(own(images(1)).equal(expected(images(1))));
}

TEST(BatchNorm, TalksInTrainingAlone) {
  for (const bool training : {true, false}) {
    const int collectives = run_in_threads(2, [&](int rank, const auto& ranks) {
      BatchNorm2d layer(6);
      layer->synchronize(ranks);
      layer->train(training);
      layer(images(rank));
    });
    EXPECT_EQ(collectives, training ? 1 : 0);
  }
}

TEST(BatchNorm, AveragesAllBatchesWithoutMomentum) {
  run_in_threads(2, [](int rank, const auto& ranks) {
    BatchNorm2d layer(torch::nn::BatchNormOptions(6).momentum(std::nullopt));
    torch::nn::BatchNorm2d whole(torch::nn::BatchNormOptions(6).momentum(std::nullopt));
    layer->synchronize(ranks);
    for (int step = 0; step < 3; ++step) {
      layer(images(2 * step + rank));
      whole(at::cat({images(2 * step), images(2 * step + 1)}));
    }
    EXPECT_TRUE(at::allclose(layer->running_mean, whole->running_mean, 1e-4, 1e-6));
    EXPECT_TRUE(at::allclose(layer->running_var, whole->running_var, 1e-4, 1e-6));
    EXPECT_EQ(layer->num_batches_tracked.item<int>(), 3);
  });
}

TEST(BatchNorm, TracksNothingIfItIsToldSo) {
  run_in_threads(2, [](int rank, const auto& ranks) {
    BatchNorm2d layer(torch::nn::BatchNormOptions(6).track_running_stats(false).affine(false));
    layer->synchronize(ranks);
    const auto expected =
        at::batch_norm(at::cat({images(0), images(1)}), {}, {}, {}, {}, true, 0.1, 1e-5, false);
    EXPECT_TRUE(at::allclose(layer(images(rank)), expected.narrow(0, 2 * rank, 2), 1e-4, 1e-5));
  });
}

TEST(BatchNorm, ClonesStaySynchronized) {
  run_in_threads(2, [](int, const auto& ranks) {
    BatchNorm2d layer(6);
    layer->synchronize(ranks);
    const auto copy = std::dynamic_pointer_cast<BatchNorm2dImpl>(layer->clone());
    ASSERT_NE(copy, nullptr);
    EXPECT_EQ(copy->ranks(), ranks);
    EXPECT_FALSE(copy->weight.is_same(layer->weight));
  });
}

TEST(BatchNorm, RefusesIntegersAndOtherChannelsOverRanks) {
  const int collectives = run_in_threads(2, [&](int rank, const auto& ranks) {
    BatchNorm2d layer(6);
    layer->synchronize(ranks);
    const auto place = "on rank " + std::to_string(rank) + " of 2: ";
    for (const auto type : {at::kLong, at::kBool, at::kComplexFloat}) {
      EXPECT_THAT(
          [&] { layer(images(rank).to(type)); },
          ThrowsMessage<UsageError>(HasSubstr(place + "the input is of " + c10::toString(type))));
    }
    EXPECT_THAT([&] { layer(at::ones({2, 5, 2, 2})); },
                ThrowsMessage<UsageError>(HasSubstr(
                    place + "the input [2, 5, 2, 2] has 5 channels (dimension 1), expected the "
                            "layer's num_features, 6")));
    EXPECT_EQ(layer->num_batches_tracked.item<int>(), 0) << "a batch that was refused";
  });
  EXPECT_EQ(collectives, 0);
}

TEST(BatchNorm, RefusesInputsOfOtherDimensions) {
  EXPECT_THAT([] { BatchNorm1d(6)(images(0)); },
              ThrowsMessage<UsageError>(HasSubstr("has 4 dimensions, expected 2 to 3 dimensions")));
  EXPECT_THAT([] { BatchNorm2d(6)(at::ones({2, 6})); },
              ThrowsMessage<UsageError>(HasSubstr("expected 4 dimensions")));
  EXPECT_THAT([] { BatchNorm3d(6)(images(0)); },
              ThrowsMessage<UsageError>(HasSubstr("BatchNorm3d")));
}

}  // namespace
}  // namespace lockstep::nn
