#include "lockstep/train/optim/adam.h"

#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <torch/utils.h>

#include "lockstep/base/error.h"

namespace lockstep::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

template <class Kind, class Options>
std::vector<at::Tensor> trained(Options options, std::optional<bool> fused) {
  torch::manual_seed(3);
  std::vector<at::Tensor> params{at::randn({5, 3}).requires_grad_(),
                                 at::randn({4}).requires_grad_()};
  options.fused = fused;
  Kind optimizer(params, options);
  for (int step = 0; step < 8; ++step) {
    optimizer.zero_grad();
    params[0].mutable_grad() = at::randn({5, 3});
    if (step >= 2) {
      params[1].mutable_grad() = at::randn({4});
    }
    optimizer.step();
  }
  return params;
}

template <class Kind, class Options>
void expect_fused_is_near(const Options& options) {
  const auto plain = trained<Kind>(options, std::nullopt);
  const auto fused = trained<Kind>(options, true);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(plain[i].allclose(fused[i], 1e-5, 1e-6)) << i;
  }
}

TEST(Adam, FusedIsNearTheDefaultAlsoWhereAParameterBeginsLater) {
  expect_fused_is_near<Adam>(AdamOptions{.lr = 0.01, .weight_decay = 0.1});
  expect_fused_is_near<Adam>(AdamOptions{.lr = 0.01, .amsgrad = true, .maximize = true});
  expect_fused_is_near<AdamW>(AdamWOptions{.lr = 0.01, .weight_decay = 0.1});
}

TEST(Adam, OnlyAdamWDecaysByDefault) {
  const auto param = at::full({2}, 1.0F).requires_grad_();
  const auto decay = [](const Optimizer& optimizer) {
    return std::get<double>(optimizer.state_dict().param_groups[0].options.at("weight_decay"));
  };
  EXPECT_EQ(decay(Adam({param})), 0);
  EXPECT_EQ(decay(AdamW({param})), 1e-2);
  EXPECT_EQ(decay(AdamW({param}, {.lr = 0.5})), 1e-2);
  EXPECT_EQ(decay(AdamW({{{param}, {.lr = 0.5}}})), 1e-2);
}

TEST(Adam, SenselessOptionsAreErrors) {
  const auto param = at::full({2}, 1.0F).requires_grad_();
  const auto expect = [&](const AdamOptions& options, const char* what) {
    EXPECT_THAT([&] { Adam({param}, options); }, ThrowsMessage<UsageError>(HasSubstr(what)));
  };
  expect({.lr = -1}, "optim::Adam: lr is -1");
  expect({.betas = {0.9, 1.0}}, "a beta is 1");
  expect({.betas = {-0.5, 0.9}}, "a beta is -0.5");
  expect({.eps = -1}, "eps is -1");
  expect({.weight_decay = -1}, "weight_decay is -1");
  EXPECT_THAT([&] { AdamW({param}, {.eps = -1}); },
              ThrowsMessage<UsageError>(HasSubstr("optim::AdamW: eps is -1")));
}

TEST(Adam, ComplexParametersAreRefused) {
  const auto param = at::full({2}, 1.0F).to(at::kComplexFloat).requires_grad_();
  EXPECT_THAT([&] { Adam({param}); }, ThrowsMessage<UsageError>(HasSubstr("is complex")));
}

TEST(Adam, AStateThatLacksSomethingIsRefused) {
  auto param = at::full({2}, 1.0F).requires_grad_();
  Adam adam({param});
  param.mutable_grad() = at::full({2}, 1.0F);
  adam.step();
  const auto refused = [&](const std::function<void(OptimizerState&)>& change, const char* what) {
    auto state = adam.state_dict();
    change(state);
    EXPECT_THAT([&] { adam.load_state_dict(state); }, ThrowsMessage<UsageError>(HasSubstr(what)));
  };
  refused([](auto& state) { state.param_groups[0].options.erase("betas"); }, "no pair 'betas'");
  refused([](auto& state) { state.param_groups[0].options["amsgrad"] = true; },
          "the state of parameter 0 of group 0 has no 'max_exp_avg_sq'");
  refused([](auto& state) { state.state[0].erase("step"); }, "has no 'step'");
  refused([](auto& state) { state.state[0]["step"] = at::full({2}, 1.0F); }, "expected []");
  refused([](auto& state) { state.param_groups[0].options["decoupled_weight_decay"] = true; },
          "a state of AdamW, whose weights decay by themselves");
}

}  // namespace
}  // namespace lockstep::optim
