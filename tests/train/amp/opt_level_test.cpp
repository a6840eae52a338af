#include "lockstep/train/amp/opt_level.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/models/script_module.h"
#include "lockstep/train/checkpoint/state_dict.h"
#include "lockstep/train/optim/sgd.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::amp {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct SmallNet : torch::nn::Module {
  SmallNet() {
    torch::manual_seed(1);
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)));
    bn = register_module("bn", torch::nn::BatchNorm2d(4));
    fc = register_module("fc", torch::nn::Linear(4, 2));
  }
  at::Tensor forward(const at::Tensor& images) { return fc(bn(conv(images)).relu().mean({2, 3})); }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d bn{nullptr};
  torch::nn::Linear fc{nullptr};
};

double train(OptLevel level, at::ScalarType type, int steps, double lr = 0.1) {
  SmallNet net;
  MixedPrecision amp(net, {.level = level, .type = type});
  optim::SGD sgd(amp.params(), {.lr = lr});
  const auto images = at::randn({8, 3, 6, 6});
  double loss_value = 0;
  for (int step = 0; step < steps; ++step) {
    at::Tensor loss;
    {
      const auto guard = amp.autocast(at::kCPU);
      loss = (net.forward(amp.input(images)).to(at::kFloat) - 1).square().mean();
    }
    amp.scale(loss).backward();
    amp.step(sgd);
    amp.zero_grad(sgd);
    loss_value = loss.item<double>();
  }
  return loss_value;
}

TEST(OptLevel, EachLevelTrains) {
  const double start = train(OptLevel::kO0, at::kHalf, 1);
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    for (const auto level : {OptLevel::kO0, OptLevel::kO1, OptLevel::kO2, OptLevel::kO3}) {
      EXPECT_LT(train(level, type, 20), 0.5 * start) << static_cast<int>(level);
    }
  }
}

TEST(OptLevel, ModelsHaveTheTypesOfTheirLevel) {
  const auto types = [](OptLevel level) {
    SmallNet net;
    const MixedPrecision amp(net, {.level = level});
    return std::vector{net.conv->weight.scalar_type(), net.bn->weight.scalar_type(),
                       net.bn->running_mean.scalar_type(), amp.params()[0].scalar_type()};
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(types(OptLevel::kO0), ElementsAre(at::kFloat, at::kFloat, at::kFloat, at::kFloat));
  EXPECT_THAT(types(OptLevel::kO1), ElementsAre(at::kFloat, at::kFloat, at::kFloat, at::kFloat));
  EXPECT_THAT(types(OptLevel::kO2), ElementsAre(at::kHalf, at::kFloat, at::kFloat, at::kFloat));
  EXPECT_THAT(types(OptLevel::kO3), ElementsAre(at::kHalf, at::kHalf, at::kHalf, at::kHalf));
}

// What Python scripted or traced has children of no C++ type.
TEST(OptLevel, ScriptsHaveTheTypesThatPythonGivesThem) {
  const test::TemporaryFolder folder;
  test::run_python("train/amp/run_script_types.py", {folder.file("")});
  const auto types = nlohmann::json::parse(read_file(folder.file("types.json")));
  for (const char* file : {"script.pt", "trace.pt"}) {
    SCOPED_TRACE(file);
    const auto net = models::load_script_module(folder.file(file));
    const MixedPrecision amp(*net, {.level = OptLevel::kO2});
    std::map<std::string, std::string> found;
    for (const auto& [name, tensor] : state_dict(*net)) {
      found[name] = tensor.scalar_type() == at::kHalf    ? "float16"
                    : tensor.scalar_type() == at::kFloat ? "float32"
                                                         : "int64";
    }
    EXPECT_EQ(found, (types.get<std::map<std::string, std::string>>()));
    EXPECT_EQ(net->forward(amp.input(at::randn({2, 3, 6, 6}))).scalar_type(), at::kHalf);
  }
}

// The reason for master weights: 1 + 1e-4 is 1 in half.
TEST(OptLevel, MasterWeightsKeepSmallSteps) {
  const auto weight_after = [](OptLevel level) {
    SmallNet net;
    net.fc->weight.detach().fill_(1);
    MixedPrecision amp(net, {.level = level});
    optim::SGD sgd(amp.params(), {.lr = 1e-4});
    static_cast<void>(amp.scale(at::full({}, 1.0F)));
    amp.scaler().load_state_dict(GradScalerState{1, 2, 0.5, 2000, 0});
    for (int step = 0; step < 100; ++step) {
      for (auto& param : net.parameters()) {
        param.mutable_grad() = at::full_like(param, -1);
      }
      amp.step(sgd);
    }
    return net.fc->weight[0][0].item<double>();
  };
  EXPECT_EQ(weight_after(OptLevel::kO3), 1);
  EXPECT_NEAR(weight_after(OptLevel::kO2), 1.01, 1e-3);
}

TEST(OptLevel, AnOverflowSkipsTheStepAndHalvesTheScale) {
  for (const auto level : {OptLevel::kO1, OptLevel::kO2}) {
    SmallNet net;
    MixedPrecision amp(net, {.level = level});
    optim::SGD sgd(amp.params(), {.lr = 0.1});
    static_cast<void>(amp.scale(at::full({}, 1.0F)));
    const auto before = net.fc->weight.detach().clone();
    for (auto& param : net.parameters()) {
      param.mutable_grad() = at::full_like(param, std::numeric_limits<float>::infinity());
    }
    amp.step(sgd);
    EXPECT_TRUE(at::equal(net.fc->weight, before));
    EXPECT_EQ(amp.scaler().get_scale(), 32768);
  }
}

TEST(OptLevel, UnscaledGradientsCanBeClippedBeforeTheStep) {
  SmallNet net;
  MixedPrecision amp(net, {.level = OptLevel::kO2});
  optim::SGD sgd(amp.params(), {.lr = 1});
  static_cast<void>(amp.scale(at::full({}, 1.0F)));
  for (auto& param : net.parameters()) {
    param.mutable_grad() = at::full_like(param, 2);
  }
  amp.unscale_(sgd);
  EXPECT_FLOAT_EQ(amp.params()[0].grad()[0][0][0][0].item<float>(), 2.0F / 65536);
  amp.params()[0].grad().zero_();
  const auto before = amp.params()[0].detach().clone();
  amp.step(sgd);
  EXPECT_TRUE(at::equal(amp.params()[0], before)) << "what was clipped is what is stepped with";
}

TEST(OptLevel, AnOptimizerWithoutAllParametersIsRefused) {
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    SmallNet net;
    MixedPrecision amp(net, {.level = OptLevel::kO2, .type = type});
    optim::SGD of_the_model(net.parameters());
    EXPECT_THAT([&] { amp.step(of_the_model); },
                ThrowsMessage<UsageError>(HasSubstr("lacks 6 of 6 parameters")));
    optim::SGD half(std::vector(amp.params().begin(), amp.params().begin() + 4));
    EXPECT_THAT([&] { amp.unscale_(half); },
                ThrowsMessage<UsageError>(HasSubstr("lacks 2 of 6 parameters")));
    EXPECT_FALSE(amp.params()[0].grad().defined()) << "nothing was handed over";
  }
}

TEST(OptLevel, FrozenParametersNeedNoOptimizer) {
  SmallNet net;
  net.conv->weight.set_requires_grad(false);
  MixedPrecision amp(net, {.level = OptLevel::kO2});
  optim::SGD sgd(std::vector(amp.params().begin() + 1, amp.params().end()), {.lr = 1e4});
  static_cast<void>(amp.scale(at::full({}, 1.0F)));
  const auto before = net.fc->weight.detach().clone();
  net.fc->weight.mutable_grad() = at::full_like(net.fc->weight, 2);
  EXPECT_NO_THROW(amp.step(sgd));
  EXPECT_FALSE(at::equal(net.fc->weight, before));
}

TEST(OptLevel, NamesAndTypesAreChecked) {
  EXPECT_EQ(parse_opt_level("O2"), OptLevel::kO2);
  EXPECT_THAT([] { parse_opt_level("02"); }, ThrowsMessage<UsageError>(HasSubstr("'02'")));
  SmallNet net;
  EXPECT_THAT([&] { MixedPrecision(net, {.type = at::kFloat}); },
              ThrowsMessage<UsageError>(HasSubstr("the type Float")));
  net.to(at::kDouble);
  EXPECT_THAT([&] { MixedPrecision{net}; },
              ThrowsMessage<UsageError>(HasSubstr("parameter 'conv.weight' is of type Double")));
}

}  // namespace
}  // namespace lockstep::amp
