#include "lockstep/parallel/nn/sync_batch_norm.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/parallel/in_child.h"
#include "tests/parallel/nets.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::same_on_all_ranks;
using ::testing::ThrowsMessage;

torch::nn::Sequential convnet() {
  torch::manual_seed(0);
  return torch::nn::Sequential(torch::nn::Conv2d(1, 4, 3), torch::nn::BatchNorm2d(4),
                               torch::nn::ReLU(), torch::nn::Flatten(), torch::nn::Linear(16, 5),
                               torch::nn::BatchNorm1d(5));
}

at::Tensor images(std::int64_t samples) {
  return at::arange(samples * 16, at::kFloat).mul(0.7).sin().view({samples, 1, 4, 4});
}

// Samples [first, end) of a rank, of this many in all.
std::pair<std::int64_t, std::int64_t> part(const std::vector<std::int64_t>& ends, int rank) {
  const auto i = static_cast<std::size_t>(rank);
  return {i == 0 ? 0 : ends[i - 1], ends[i]};
}

// Trains three steps on parts of the batch, and beside it one process on all of it. In float64, in
// which what three steps make of rounding is far from the tolerance.
void expect_as_on_one_process(const std::vector<std::int64_t>& ends, const char* backend) {
  const auto ranks = static_cast<int>(ends.size());
  run_ranks(
      ranks,
      [&](Group& world) {
        auto net = convnet();
        auto alone = convnet();
        net->to(at::kDouble);
        alone->to(at::kDouble);
        EXPECT_EQ(convert_sync_batchnorm(*net, world), 2);
        DistributedDataParallel ddp(net, world);
        torch::optim::SGD optimizer(ddp.parameters(), torch::optim::SGDOptions(0.1));
        torch::optim::SGD for_alone(alone->parameters(), torch::optim::SGDOptions(0.1));
        const auto [first, end] = part(ends, world.rank());
        const auto all = images(ends.back()).to(at::kDouble);
        for (int step = 0; step < 3; ++step) {
          optimizer.zero_grad();
          for_alone.zero_grad();
          // Summed, so that unequal parts count as they should: DDP divides by the ranks.
          (ddp(all.slice(0, first, end)).tanh().sum() * world.size() / ends.back()).backward();
          (alone->forward(all).tanh().sum() / ends.back()).backward();
          for (std::size_t i = 0; i < net->parameters().size(); ++i) {
            EXPECT_TRUE(at::allclose(net->parameters()[i].grad(), alone->parameters()[i].grad(),
                                     1e-9, 1e-11))
                << "step " << step << ", " << net->named_parameters().keys()[i];
          }
          optimizer.step();
          for_alone.step();
        }
        for (std::size_t i = 0; i < net->buffers().size(); ++i) {
          EXPECT_TRUE(at::allclose(net->buffers()[i], alone->buffers()[i], 1e-9, 1e-11));
          EXPECT_TRUE(same_on_all_ranks(world, net->buffers()[i]));
        }
      },
      backend);
}

TEST(SyncBatchNorm, TrainsAsOneProcessOnTheWholeBatch) {
  for (const char* backend : {"shm", "gloo"}) {
    expect_as_on_one_process({4, 8}, backend);
    expect_as_on_one_process({4, 8, 12}, backend);
  }
}

TEST(SyncBatchNorm, TrainsWithUnequalAndEmptyBatches) {
  expect_as_on_one_process({1, 7}, "shm");
  expect_as_on_one_process({0, 3, 8}, "shm");
}

TEST(SyncBatchNorm, IsAPlainLayerForAProcessThatIsAlone) {
  test::in_child([] {
    const auto world = init_process_group();
    SyncBatchNorm layer(SyncBatchNormOptions(4).eps(1e-3), world);
    torch::nn::BatchNorm1d plain(torch::nn::BatchNorm1dOptions(4).eps(1e-3));
    EXPECT_TRUE(layer(testing::input_of(0)).equal(plain(testing::input_of(0))));
  });
}

TEST(SyncBatchNorm, RefusesWhatItCannotNormalizeInBothModes) {
  run_ranks(2, [](Group& world) {
    SyncBatchNorm layer(SyncBatchNormOptions(4), world);
    const auto place = "on rank " + std::to_string(world.rank()) + " of 2: ";
    for (const bool training : {true, false}) {
      layer->train(training);
      EXPECT_THAT([&] { layer(at::ones({3, 4}, at::kLong)); },
                  ThrowsMessage<UsageError>(HasSubstr(place + "the input is of Long")));
      EXPECT_THAT(
          [&] { layer(at::ones({3, 5})); },
          ThrowsMessage<UsageError>(AllOf(HasSubstr(place), HasSubstr("has 5 channels"),
                                          HasSubstr("expected the layer's num_features, 4"))));
      EXPECT_THAT([&] { layer(at::ones({4})); },
                  ThrowsMessage<UsageError>(HasSubstr(
                      place + "the input has 1 dimensions, expected at least 2 dimensions")));
    }
  });
}

TEST(ConvertSyncBatchnorm, KeepsTensorsNamesAndMode) {
  const auto world = init_process_group();
  auto net = convnet();
  net->eval();
  net->parameters()[2].set_requires_grad(false);
  const auto parameters = net->named_parameters();
  const auto buffers = net->named_buffers();
  EXPECT_EQ(convert_sync_batchnorm(*net, world), 2);
  EXPECT_NE(net->ptr<SyncBatchNormImpl>(1), nullptr);
  EXPECT_FALSE(net->ptr(1)->is_training());
  EXPECT_EQ(net->named_parameters().keys(), parameters.keys());
  EXPECT_EQ(net->named_buffers().keys(), buffers.keys());
  for (const auto& item : parameters) {
    EXPECT_TRUE(net->named_parameters()[item.key()].is_same(item.value())) << item.key();
  }
  for (const auto& item : buffers) {
    EXPECT_TRUE(net->named_buffers()[item.key()].is_same(item.value())) << item.key();
  }
  EXPECT_EQ(convert_sync_batchnorm(*net, world), 2);  // Again: another group, say.
}

TEST(ConvertSyncBatchnorm, ReachesLayersOfOursWhereverTheyAre) {
  struct Net : torch::nn::Module {
    nn::BatchNorm1d norm = register_module("norm", nn::BatchNorm1d(4));
    at::Tensor forward(const at::Tensor& x) { return norm(x); }
  };
  run_ranks(2, [](Group& world) {
    Net net;
    EXPECT_EQ(convert_sync_batchnorm(net, world), 1);
    net.forward(testing::input_of(world.rank()));
    EXPECT_TRUE(same_on_all_ranks(world, net.norm->running_mean));
  });
}

TEST(ConvertSyncBatchnorm, NamesALayerThatItCannotReplaceAndChangesNothing) {
  struct Net : torch::nn::Module {
    torch::nn::Sequential first = register_module(
        "first", torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4)));
    torch::nn::BatchNorm1d second = register_module("second", torch::nn::BatchNorm1d(4));
  };
  const auto world = init_process_group();
  Net net;
  EXPECT_THAT([&] { convert_sync_batchnorm(net, world); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("'second' (torch::nn::BatchNorm1dImpl)"),
                                              HasSubstr("lockstep::nn::BatchNorm2d"))));
  EXPECT_EQ(net.first->ptr(1)->as<SyncBatchNormImpl>(), nullptr);
  torch::nn::BatchNorm1d layer(4);
  EXPECT_THAT([&] { convert_sync_batchnorm(*layer, world); },
              ThrowsMessage<UsageError>(HasSubstr("make a SyncBatchNorm")));
}

}  // namespace
}  // namespace lockstep
