// SyncBatchNorm of two ranks that share one GPU.
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/nn/sync_batch_norm.h"
#include "tests/comm/nccl_ranks.h"
#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kSharedGpu = "cpu:shm,cuda:shm";

torch::nn::Sequential convnet() {
  torch::manual_seed(0);
  torch::nn::Sequential net(torch::nn::Conv2d(3, 8, 3), torch::nn::BatchNorm2d(8),
                            torch::nn::ReLU(), torch::nn::Conv2d(8, 4, 3),
                            torch::nn::BatchNorm2d(4));
  net->to(at::kCUDA);
  return net;
}

at::Tensor images(std::int64_t samples) {
  return at::arange(samples * 3 * 64, at::kCUDA)
      .to(at::kFloat)
      .mul(0.7)
      .sin()
      .view({samples, 3, 8, 8});
}

struct Tolerance {
  double relative;
  double absolute;
};

// Rank 0 has the first `first` of 8 samples, rank 1 the others.
void expect_as_on_one_process(std::int64_t first, at::ScalarType type, Tolerance tolerance,
                              const char* backend = kSharedGpu) {
  testing::run_ranks(
      2,
      [&](Group& world) {
        auto alone = convnet();
        auto net = convnet();
        EXPECT_EQ(convert_sync_batchnorm(*net, world), 2);
        net->to(type);
        DistributedDataParallel ddp(net, world);
        const auto all = images(8);
        const auto own = world.rank() == 0 ? all.slice(0, 0, first) : all.slice(0, first);
        // Summed, so that unequal parts count as they should: DDP divides by the ranks.
        (ddp(own.to(type)).tanh().sum() * world.size() / 64.0).backward();
        (alone->forward(all).tanh().sum() / 64.0).backward();
        const auto expect_close = [&](const at::Tensor& found, const at::Tensor& expected,
                                      const std::string& name) {
          EXPECT_TRUE(at::allclose(found.to(expected.scalar_type()), expected, tolerance.relative,
                                   tolerance.absolute))
              << name << ", rank " << world.rank() << ": " << found << expected;
        };
        for (const auto& item : alone->named_parameters()) {
          expect_close(net->named_parameters()[item.key()].grad(), item.value().grad(), item.key());
        }
        for (const auto& item : alone->named_buffers()) {
          expect_close(net->named_buffers()[item.key()], item.value(), item.key());
        }
      },
      backend);
}

TEST(SyncBatchNormOnGpu, TrainsAsOneProcessOverNccl) {
  LOCKSTEP_SHARES_GPUS_OVER_NCCL();
  for (const std::int64_t first : {4, 1, 0}) {
    expect_as_on_one_process(first, at::kFloat, {.relative = 1e-4, .absolute = 1e-5},
                             testing::kNcclBesideShm);
  }
}

TEST(SyncBatchNormOnGpu, TrainsAsOneProcessOnTheWholeBatch) {
  for (const std::int64_t first : {4, 1, 0}) {
    expect_as_on_one_process(first, at::kFloat, {.relative = 1e-4, .absolute = 1e-5});
  }
}

// Running statistics are in half precision, too.
TEST(SyncBatchNormOnGpu, TrainsInHalfPrecision) {
  expect_as_on_one_process(4, at::kHalf, {.relative = 2e-2, .absolute = 2e-2});
  expect_as_on_one_process(0, at::kHalf, {.relative = 2e-2, .absolute = 2e-2});
}

TEST(SyncBatchNormOnGpu, RefusesOneValuePerChannel) {
  testing::run_ranks(
      2,
      [](Group& world) {
        SyncBatchNorm layer(SyncBatchNormOptions(4), world);
        layer->to(at::kCUDA);
        const auto input = at::zeros({world.rank() == 0 ? 1 : 0, 4}, at::kCUDA);
        EXPECT_THAT([&] { layer(input); }, ThrowsMessage<UsageError>(HasSubstr("one value")));
        EXPECT_EQ(layer(at::zeros({world.rank(), 4, 2}, at::kCUDA)).size(0), world.rank());
      },
      kSharedGpu);
}

}  // namespace
}  // namespace lockstep
