// GradScaler beside Python's, call by call.
#include "lockstep/train/amp/grad_scaler.h"

#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/train/optim/adam.h"
#include "lockstep/train/optim/sgd.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::amp {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

double number(const json& text) { return std::strtod(text.get<std::string>().c_str(), nullptr); }

bool same(double ours, double pythons) {
  return std::isnan(pythons) ? std::isnan(ours) : ours == pythons;
}

at::Tensor values_of(const json& texts) {
  std::vector<float> values;
  for (const auto& text : texts) {
    values.push_back(static_cast<float>(number(text)));
  }
  return at::tensor(values);
}

// As Trial of run_scaler.py.
class Replay {
 public:
  explicit Replay(const json& trial)
      : scaler_({.init_scale = trial.at("options").at("init_scale"),
                 .growth_factor = trial.at("options").at("growth_factor"),
                 .backoff_factor = trial.at("options").at("backoff_factor"),
                 .growth_interval = trial.at("options").at("growth_interval"),
                 .enabled = trial.at("enabled")}) {
    for (int i = 0; i < 3; ++i) {
      params_.push_back(at::full({3}, 1.0F).requires_grad_());
    }
    optimizers_.push_back(std::make_unique<optim::SGD>(
        std::vector{params_[0]}, optim::SGDOptions{.lr = 0.5, .momentum = 0.9}));
    optimizers_.push_back(std::make_unique<optim::Adam>(
        std::vector{params_[1]}, optim::AdamOptions{.lr = 0.25, .fused = true}));
    optimizers_.push_back(std::make_unique<optim::SGD>(
        std::vector{params_[2]}, optim::SGDOptions{.lr = 0.125, .fused = true}));
  }

  void call(const json& call) {
    bool raised = false;
    try {
      act(call);
    } catch (const UsageError&) {
      raised = true;
    }
    EXPECT_EQ(raised, call.at("raised").get<bool>());
    expect_state(call);
  }

 private:
  void act(const json& call) {
    const auto name = call.at("call").get<std::string>();
    auto& optimizer = *optimizers_.at(call.value("which", 0));
    if (name == "scale") {
      const auto scaled = scaler_.scale(at::full({}, number(call.at("value")), at::kFloat));
      EXPECT_TRUE(same(scaled.item<double>(), number(call.at("scaled"))));
    } else if (name == "grad") {
      params_.at(call.at("which")).mutable_grad() = values_of(call.at("values"));
    } else if (name == "unscale_") {
      scaler_.unscale_(optimizer);
    } else if (name == "step") {
      scaler_.step(optimizer);
    } else if (name == "update") {
      scaler_.update();
    } else if (name == "new_scale") {
      scaler_.update(number(call.at("value")));
    } else if (name == "save") {
      saved_ = scaler_.state_dict();
    } else if (name == "load") {
      scaler_.load_state_dict(saved_);
    } else {
      FAIL() << name;
    }
  }

  void expect_state(const json& call) {
    const auto state = scaler_.state_dict();
    const auto& expected = call.at("state");
    ASSERT_EQ(state.has_value(), !expected.empty());
    if (state) {
      EXPECT_TRUE(same(state->scale, number(expected.at("scale")))) << state->scale;
      EXPECT_EQ(state->growth_factor, number(expected.at("growth_factor")));
      EXPECT_EQ(state->backoff_factor, number(expected.at("backoff_factor")));
      EXPECT_EQ(state->growth_interval, number(expected.at("growth_interval")));
      EXPECT_EQ(state->growth_tracker, number(expected.at("_growth_tracker")));
    }
    for (std::size_t i = 0; i < params_.size(); ++i) {
      EXPECT_TRUE(params_[i].allclose(values_of(call.at("params")[i]), 0, 0, true)) << i;
      if (!call.at("grads")[i].is_null()) {
        EXPECT_TRUE(params_[i].grad().allclose(values_of(call.at("grads")[i]), 0, 0, true)) << i;
      }
    }
  }

  GradScaler scaler_;
  std::vector<at::Tensor> params_;
  std::vector<std::unique_ptr<optim::Optimizer>> optimizers_;
  std::optional<GradScalerState> saved_;
};

TEST(GradScaler, DoesWhatPythonsDoesInRandomSequences) {
  at::set_num_threads(1);
  const test::TemporaryFolder folder;
  test::run_python("train/amp/run_scaler.py", {folder.file("trials")});
  const auto trials = json::parse(read_file(folder.file("trials")));
  ASSERT_EQ(trials.size(), 60);
  int raised = 0;
  for (std::size_t trial = 0; trial < trials.size() && !::testing::Test::HasFailure(); ++trial) {
    Replay replay(trials[trial]);
    for (const auto& call : trials[trial].at("calls")) {
      SCOPED_TRACE("trial " + std::to_string(trial) + ": " + call.dump());
      replay.call(call);
      raised += call.at("raised").get<bool>() ? 1 : 0;
      if (::testing::Test::HasFailure()) {
        break;
      }
    }
  }
  EXPECT_GT(raised, 50) << "wrong orders of calls are among them";
}

TEST(GradScaler, AnOverflowInTheFirstStepLeavesNoTraceInMomentum) {
  const auto trained = [](bool overflow_first) {
    auto param = at::full({3}, 1.0F).requires_grad_();
    optim::SGD sgd({param}, {.lr = 0.5, .momentum = 0.9, .fused = true});
    GradScaler scaler({.init_scale = 1});
    static_cast<void>(scaler.scale(at::full({}, 1.0F)));
    if (overflow_first) {
      param.mutable_grad() = at::full({3}, std::numeric_limits<float>::infinity());
      scaler.step(sgd);
    }
    GradScaler second({.init_scale = 1});
    static_cast<void>(second.scale(at::full({}, 1.0F)));
    param.mutable_grad() = at::full({3}, 2.0F);
    second.step(sgd);
    return param;
  };
  EXPECT_TRUE(at::equal(trained(true), trained(false)));
}

// Beside a dense parameter, in the words of run_sparse_scaler.py.
TEST(GradScaler, UnscalesSparseGradientsAsPythonsDoes) {
  at::set_num_threads(1);
  const test::TemporaryFolder folder;
  test::run_python("train/amp/run_sparse_scaler.py", {folder.file("cases")});
  const auto cases = json::parse(read_file(folder.file("cases")));
  ASSERT_EQ(cases.size(), 6);
  for (const auto& one : cases) {
    SCOPED_TRACE(one.dump());
    const auto type = one.at("half").get<bool>() ? at::kHalf : at::kFloat;
    auto sparse = at::full({4}, 1.0F).to(type).requires_grad_();
    auto dense = at::full({2}, 1.0F).to(type).requires_grad_();
    optim::SGD sgd({dense, sparse}, {.lr = 0.5, .fused = one.at("fused").get<bool>()});
    GradScaler scaler({.init_scale = 8, .growth_interval = 1});
    static_cast<void>(scaler.scale(at::full({}, 1.0F)));
    dense.mutable_grad() = at::full({2}, 16.0F).to(type);
    const auto indices = at::tensor(one.at("indices").get<std::vector<std::int64_t>>());
    sparse.mutable_grad() =
        at::sparse_coo_tensor(indices.unsqueeze(0), values_of(one.at("values")).to(type), {4});
    bool raised = false;
    try {
      one.at("fused").get<bool>() ? scaler.step(sgd) : scaler.unscale_(sgd);
    } catch (const UsageError&) {
      raised = true;
    }
    EXPECT_EQ(raised, one.at("raised").get<bool>());
    EXPECT_EQ(sparse.grad().is_coalesced(), one.at("coalesced").get<bool>());
    EXPECT_TRUE(sparse.grad()._values().to(at::kFloat).equal(values_of(one.at("after"))));
    EXPECT_TRUE(dense.grad().to(at::kFloat).equal(values_of(one.at("dense"))));
    if (one.contains("scale")) {
      scaler.update();
      EXPECT_EQ(scaler.get_scale(), number(one.at("scale")));
    }
  }
}

TEST(GradScaler, GradientsInHalfAreRefused) {
  auto param = at::full({3}, 1.0F).to(at::kHalf).requires_grad_();
  optim::SGD sgd({param});
  GradScaler scaler;
  static_cast<void>(scaler.scale(at::full({}, 1.0F)));
  param.mutable_grad() = at::full({3}, 1.0F).to(at::kHalf);
  EXPECT_THAT([&] { scaler.step(sgd); }, ThrowsMessage<UsageError>(HasSubstr("in float16")));
}

TEST(GradScaler, AStepWithoutGradientsIsAnError) {
  for (const bool fused : {false, true}) {
    optim::SGD sgd({at::full({3}, 1.0F).requires_grad_()}, {.fused = fused});
    GradScaler scaler;
    static_cast<void>(scaler.scale(at::full({}, 1.0F)));
    EXPECT_THAT([&] { scaler.step(sgd); },
                ThrowsMessage<UsageError>(HasSubstr("without gradients")));
  }
}

TEST(GradScaler, SenselessOptionsAreErrors) {
  EXPECT_THAT([] { GradScaler({.growth_factor = 1}); },
              ThrowsMessage<UsageError>(HasSubstr("growth_factor is 1")));
  EXPECT_THAT([] { GradScaler({.backoff_factor = 1}); },
              ThrowsMessage<UsageError>(HasSubstr("backoff_factor is 1")));
  EXPECT_THAT([] { GradScaler().load_state_dict(std::nullopt); },
              ThrowsMessage<UsageError>(HasSubstr("the state is empty")));
  EXPECT_THAT([] { GradScaler().update(); },
              ThrowsMessage<UsageError>(HasSubstr("before the first scale()")));
}

}  // namespace
}  // namespace lockstep::amp
