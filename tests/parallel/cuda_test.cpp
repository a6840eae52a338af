// Data-parallel training on a GPU: a real NCCL group of one rank.
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <chrono>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/hooks/default_hooks.h"
#include "tests/parallel/nets.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::input_of;
using testing::run_ranks;
using ::testing::ThrowsMessage;

constexpr const char* kBackend = "cpu:shm,cuda:nccl";

void expect_gradients_of_the_plain_module(const Group& world,
                                          const DistributedDataParallelOptions& options) {
  torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3),
                            torch::nn::Linear(3, 2));
  net->to(world.device());
  auto plain = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone());
  DistributedDataParallel ddp(net, world, options);
  for (int step = 0; step < 3; ++step) {
    net->zero_grad();
    plain->zero_grad();
    ddp(input_of(step).cuda()).square().sum().backward();
    plain->forward(input_of(step).cuda()).square().sum().backward();
    for (std::size_t i = 0; i < net->parameters().size(); ++i) {
      EXPECT_TRUE(net->parameters()[i].grad().equal(plain->parameters()[i].grad()));
      EXPECT_TRUE(net->parameters()[i].grad().is_cuda());
    }
  }
  EXPECT_EQ(ddp.stats().steps, 3);
}

// Alone, nothing is copied or summed unless the option asks for it.
TEST(CudaDistributedDataParallel, GivesTheGradientsOfThePlainModule) {
  for (const bool views : {true, false}) {
    for (const bool reduce : {false, true}) {
      run_ranks(
          1,
          [&](Group& world) {
            expect_gradients_of_the_plain_module(
                world, {.gradient_as_bucket_view = views, .reduce_alone = reduce});
          },
          kBackend);
    }
  }
}

TEST(CudaDistributedDataParallel, TrainsAModuleThatSpansTheCpuAndAGpu) {
  struct Spanning : torch::nn::Module {
    Spanning() {
      register_module("first", first);
      register_module("second", second)->to(at::kCUDA);
    }
    at::Tensor forward(const at::Tensor& input) {
      return second->forward(first->forward(input).cuda());
    }
    torch::nn::Linear first{4, 3};
    torch::nn::Linear second{3, 2};
  };
  run_ranks(
      1,
      [](Group& world) {
        auto net = std::make_shared<Spanning>();
        DistributedDataParallel ddp(net, world, {.find_unused_parameters = false});
        for (int step = 0; step < 3; ++step) {
          net->zero_grad();
          ddp(input_of(0)).sum().backward();
        }
        EXPECT_EQ(ddp.stats().buckets, 2);
        EXPECT_TRUE(net->first->bias.grad().is_cpu());
        EXPECT_TRUE(net->second->bias.grad().cpu().equal(at::full({2}, 8.F)));
        EXPECT_THAT([&] { DistributedDataParallel(net, world, {.device_ids = {0}}); },
                    ThrowsMessage<UsageError>(HasSubstr("parameters are on cpu, cuda:0")));
      },
      kBackend);
}

TEST(CudaDistributedDataParallel, MovesInputsToItsDevice) {
  run_ranks(
      1,
      [](Group& world) {
        torch::nn::Linear net(4, 2);
        net->to(world.device());
        DistributedDataParallel ddp(net, world, {.device_ids = {0}});
        const auto output = ddp(input_of(0));
        EXPECT_TRUE(output.is_cuda());
        output.sum().backward();
        EXPECT_TRUE(net->bias.grad().cpu().equal(at::full({2}, 8.F)));
      },
      kBackend);
}

TEST(CudaDistributedDataParallel, FindsUnusedParameters) {
  run_ranks(
      1,
      [](Group& world) {
        auto net = std::make_shared<testing::Branches>();
        net->to(world.device());
        DistributedDataParallel ddp(net, world, {.find_unused_parameters = true});
        for (int step = 0; step < 3; ++step) {
          net->zero_grad();
          ddp(input_of(0).cuda(), 0).first.sum().backward();
          EXPECT_FALSE(net->second->bias.grad().defined());
          EXPECT_TRUE(net->first->bias.grad().cpu().equal(at::full({2}, 8.F)));
        }
      },
      kBackend);
}

TEST(CudaDistributedDataParallel, KeepsChannelsLast) {
  run_ranks(
      1,
      [](Group& world) {
        torch::nn::Conv2d net(torch::nn::Conv2dOptions(8, 16, 3));
        net->weight.set_data(net->weight.contiguous(at::MemoryFormat::ChannelsLast));
        net->to(world.device());
        DistributedDataParallel ddp(net, world);
        ddp(at::ones({2, 8, 9, 9}, at::kCUDA).to(at::MemoryFormat::ChannelsLast)).sum().backward();
        EXPECT_EQ(net->weight.grad().strides(), net->weight.strides());
      },
      kBackend);
}

void expect_no_wait(const Group& world, const DistributedDataParallelOptions& options) {
  using Clock = std::chrono::steady_clock;
  torch::nn::Sequential net(torch::nn::Linear(64, 64), torch::nn::BatchNorm1d(64),
                            torch::nn::Linear(64, 8));
  net->to(world.device());
  DistributedDataParallel ddp(net, world, options);
  const auto input = at::ones({32, 64}, at::kCUDA);
  const auto steps = [&] {
    for (int i = 0; i < 5; ++i) {
      net->zero_grad();
      ddp(input).square().sum().backward();
    }
  };
  steps();
  c10::cuda::device_synchronize();
  at::cuda::sleep(2'000'000'000);  // About a second.
  const auto start = Clock::now();
  steps();
  const auto host = Clock::now() - start;
  c10::cuda::device_synchronize();
  const auto device = Clock::now() - start;
  EXPECT_GT(device, std::chrono::milliseconds(500));
  EXPECT_LT(host, device / 4);
}

// Buckets are filled on another stream. Here it is late, and backward goes on to allocate gradients
// of the same size.
TEST(CudaDistributedDataParallel, KeepsGradientsUntilTheyAreCopied) {
  run_ranks(
      1,
      [](Group& world) {
        torch::nn::Sequential net;
        for (int layer = 0; layer < 8; ++layer) {
          net->push_back(torch::nn::Linear(256, 256));
        }
        net->to(world.device());
        auto plain = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone());
        DistributedDataParallel ddp(net, world, {.bucket_cap_mb = 0.1, .reduce_alone = true});
        ddp.register_comm_hook([keep = noop_hook()](GradBucket& bucket) {
          if (bucket.index() == 0) {
            at::cuda::sleep(200'000'000);  // A tenth of a second.
          }
          return keep(bucket);
        });
        for (int step = 0; step < 4; ++step) {
          net->zero_grad();
          plain->zero_grad();
          const auto input = at::ones({32, 256}, at::kCUDA) * (step + 1.0);
          ddp(input).square().sum().backward();
          plain->forward(input).square().sum().backward();
          for (std::size_t i = 0; i < net->parameters().size(); ++i) {
            EXPECT_TRUE(net->parameters()[i].grad().equal(plain->parameters()[i].grad()))
                << "parameter " << i << " in step " << step;
          }
        }
      },
      kBackend);
}

TEST(CudaDistributedDataParallel, NeverMakesTheHostWaitForTheGpu) {
  for (const bool views : {true, false}) {
    for (const bool reduce : {false, true}) {
      run_ranks(
          1,
          [&](Group& world) {
            expect_no_wait(world, {.gradient_as_bucket_view = views, .reduce_alone = reduce});
          },
          kBackend);
    }
  }
}

}  // namespace
}  // namespace lockstep
