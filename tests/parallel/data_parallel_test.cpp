#include "lockstep/parallel/data_parallel.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "tests/parallel/in_child.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

DataParallelOptions on_cpus(std::size_t count) {
  return {.device_ids = std::vector(count, at::Device(at::kCPU))};
}

torch::nn::Sequential make_net() {
  at::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 2));
}

// Plain SGD.
void step(torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  for (auto& parameter : module.parameters()) {
    parameter.sub_(parameter.grad(), 0.1);
    parameter.mutable_grad().reset();
  }
}

// 7 rows for 3 replicas: 3, 3 and 1. 2 rows: the third has nothing to do.
TEST(DataParallel, TrainsAsTheModuleAloneWould) {
  test::in_child([] {
    for (const std::int64_t size : {7, 2}) {
      auto alone = make_net();
      auto net = make_net();
      DataParallel parallel(net, on_cpus(3));
      for (int i = 0; i < 5; ++i) {
        const auto data = at::rand({size, 6});
        const auto target = at::rand({size, 2});
        const auto expected = at::mse_loss(alone->forward(data), target);
        const auto loss = at::mse_loss(parallel(data), target);
        EXPECT_TRUE(at::allclose(loss, expected, 1e-5, 1e-6)) << loss << expected;
        expected.backward();
        loss.backward();
        for (std::size_t k = 0; k < net->parameters().size(); ++k) {
          EXPECT_TRUE(
              at::allclose(net->parameters()[k].grad(), alone->parameters()[k].grad(), 1e-5, 1e-6));
        }
        step(*net);
        step(*alone);
      }
    }
  });
}

TEST(DataParallel, TwoForwardsMayComeBeforeTheirBackwards) {
  test::in_child([] {
    auto alone = make_net();
    auto net = make_net();
    DataParallel parallel(net, on_cpus(2));
    const auto data = at::rand({4, 6});
    const auto gradient_of = [&](auto& module) {
      const auto first = module.forward(data).sum();
      const auto second = (module.forward(data * 2) * 3).sum();
      first.backward();
      second.backward();
    };
    gradient_of(*alone);
    gradient_of(parallel);
    EXPECT_TRUE(
        at::allclose(net->parameters()[0].grad(), alone->parameters()[0].grad(), 1e-5, 1e-6));
  });
}

// A validation between forward and backward, and weights that change.
TEST(DataParallel, AGraphKeepsTheWeightsOfItsForward) {
  test::in_child([] {
    torch::nn::Sequential net(torch::nn::Conv1d(1, 2, 3), torch::nn::Conv1d(2, 1, 3));
    DataParallel parallel(net, on_cpus(2));
    const auto data = at::rand({4, 1, 6});
    net->zero_grad();
    parallel(data).sum().backward();
    const auto expected = net->parameters()[0].grad().clone();
    net->zero_grad();
    const auto sum = parallel(data).sum();
    {
      const at::NoGradGuard no_grad;
      (void)parallel(data);
      for (auto& weight : net->parameters()) {
        weight.data().mul_(2);  // Unseen by autograd, as set_data() in an optimizer of one's own.
      }
    }
    const auto later = parallel(data);
    for (auto& weight : net->parameters()) {
      weight.data().mul_(0.5);
    }
    sum.backward();
    EXPECT_TRUE(at::allclose(net->parameters()[0].grad(), expected, 1e-5, 1e-6));
  });
}

TEST(DataParallel, RunningStatisticsAreThoseOfTheFirstPart) {
  test::in_child([] {
    torch::nn::BatchNorm1d norm(torch::nn::BatchNorm1dOptions(1).momentum(1.0));
    DataParallel parallel(norm, on_cpus(2));
    (void)parallel(at::arange(8, at::kFloat).view({8, 1}));
    EXPECT_FLOAT_EQ(norm->running_mean.item<float>(), 1.5) << "the mean of 0 to 3";
  });
}

TEST(DataParallel, WithoutGradientsNoneAreKept) {
  test::in_child([] {
    auto net = make_net();
    DataParallel parallel(net, on_cpus(2));
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(parallel(at::rand({4, 6})).requires_grad());
  });
}

// Takes and returns more than one tensor.
class Pairs : public torch::nn::Cloneable<Pairs> {
 public:
  void reset() override {}
  std::pair<std::vector<at::Tensor>, int> forward(const at::Tensor& data, int factor,
                                                  const std::optional<at::Tensor>& mask) {
    return {{data * factor, (mask ? data * *mask : data).sum()}, factor};
  }
};

TEST(DataParallel, ArgumentsAndOutputsMayHaveAnyTensors) {
  test::in_child([] {
    const auto pairs = std::make_shared<Pairs>();
    DataParallel parallel(pairs, on_cpus(2));
    const auto data = at::arange(4, at::kFloat);
    const auto [tensors, factor] = parallel(data, 3, std::optional(at::ones({4})));
    EXPECT_TRUE(at::allclose(tensors[0], data * 3));
    EXPECT_TRUE(at::allclose(tensors[1], at::arange(1, 6, 4, at::kFloat))) << "one sum each";
    EXPECT_EQ(factor, 3);
    EXPECT_THAT([&] { parallel(data, 3, std::optional(at::ones({1}))); },
                ThrowsMessage<UsageError>(HasSubstr("pieces for 2 and for 1 devices")));
  });
}

struct Warnings : c10::WarningHandler {
  void process(const c10::Warning& warning) override { texts.push_back(warning.msg()); }
  std::vector<std::string> texts;
};

// As in Python: the module's own output with one device, a vector with several.
TEST(DataParallel, ALossStaysASingleNumberOnOneDevice) {
  test::in_child([] {
    c10::WarningUtils::set_warnAlways(true);  // Else once in a process, whatever ran before.
    Warnings warnings;
    const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
    const auto data = at::arange(4, at::kFloat);
    const auto loss_on = [&](std::size_t devices, const at::Tensor& batch) {
      DataParallel parallel(std::make_shared<Pairs>(), on_cpus(devices));
      return parallel(batch, 1, std::optional<at::Tensor>()).first[1];
    };
    const auto loss = loss_on(1, data);
    EXPECT_EQ(loss.dim(), 0);
    EXPECT_EQ(loss.item<float>(), 6);
    EXPECT_THAT(warnings.texts, ::testing::IsEmpty());
    EXPECT_EQ(loss_on(2, data).sizes(), at::IntArrayRef({2}));
    EXPECT_THAT(warnings.texts, ::testing::Contains(HasSubstr("collected as a vector")));
    EXPECT_EQ(loss_on(2, data.narrow(0, 0, 1)).sizes(), at::IntArrayRef({1})) << "one is idle";
  });
}

TEST(DataParallel, TellsWhereTheTimeWent) {
  test::in_child([] {
    DataParallel parallel(make_net(), on_cpus(2));
    (void)parallel(at::rand({4, 6}));
    const auto& times = parallel.times();
    EXPECT_GT(times.replicate, 0);
    EXPECT_GT(times.scatter, 0);
    EXPECT_GT(times.forward, 0);
    EXPECT_GT(times.gather, 0);
  });
}

TEST(DataParallel, DevicesAreChecked) {
  const auto net = make_net();
  EXPECT_THAT([&] { DataParallel(net, {.device_ids = {at::kCPU, at::kMeta}}); },
              ThrowsMessage<UsageError>(HasSubstr("are of two kinds")));
  EXPECT_THAT([&] { DataParallel(net, {.device_ids = {at::kCUDA}}); },
              ThrowsMessage<UsageError>(HasSubstr("does not say which GPU")));
  EXPECT_EQ(DataParallel(net).device_ids(), std::vector{at::Device(at::kCPU)});
  EXPECT_THAT(
      [] { DataParallel(std::shared_ptr<torch::nn::LinearImpl>()); },
      ThrowsMessage<UsageError>(HasSubstr("DataParallel: the pointer to the module is null")));
}

}  // namespace
}  // namespace lockstep
