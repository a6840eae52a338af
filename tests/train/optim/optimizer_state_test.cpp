// What load_state_dict() accepts and refuses.
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/train/optim/adam.h"
#include "lockstep/train/optim/sgd.h"

namespace lockstep::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Optim, AStateIsLoadedIntoTheTensorsThatAreThere) {
  auto param = at::full({2}, 1.0F).requires_grad_();
  SGD sgd({param}, {.momentum = 0.9});
  param.mutable_grad() = at::full({2}, 1.0F);
  sgd.step();
  const auto buffer = sgd.state_dict().state.at(0).at("momentum_buffer");
  auto state = sgd.state_dict();
  state.state[0]["momentum_buffer"] = at::full({2}, 7.0, at::kDouble);
  state.param_groups[0].options["initial_lr"] = 0.25;
  sgd.load_state_dict(state);
  EXPECT_TRUE(at::equal(buffer, at::full({2}, 7.0F)));
  EXPECT_EQ(std::get<double>(sgd.state_dict().param_groups[0].options.at("initial_lr")), 0.25);
  state.state[0]["momentum_buffer"] = at::Tensor();  // Python's None.
  sgd.load_state_dict(state);
  EXPECT_TRUE(sgd.state_dict().state.empty());
}

// As torch.optim's __setstate__() does, for states of versions that had no such option.
TEST(Optim, FlagsThatAnOlderStateLacksAreFalse) {
  const auto param = at::full({2}, 1.0F).requires_grad_();
  SGD sgd({param}, {.momentum = 0.9, .nesterov = true, .maximize = true});
  auto state = sgd.state_dict();
  state.param_groups[0].options.erase("nesterov");
  state.param_groups[0].options.erase("maximize");
  sgd.load_state_dict(state);
  const auto loaded = sgd.state_dict().param_groups[0].options;
  EXPECT_EQ(loaded.at("nesterov"), OptionValue(false));
  EXPECT_EQ(loaded.at("maximize"), OptionValue(false));

  Adam adam({param}, {.amsgrad = true, .maximize = true});
  state = adam.state_dict();
  state.param_groups[0].options.erase("amsgrad");
  state.param_groups[0].options.erase("maximize");
  adam.load_state_dict(state);
  const auto adams = adam.state_dict().param_groups[0].options;
  EXPECT_EQ(adams.at("amsgrad"), OptionValue(false));
  EXPECT_EQ(adams.at("maximize"), OptionValue(false));
}

TEST(Optim, AStateOfOtherParametersIsRefusedAndChangesNothing) {
  auto param = at::full({2}, 1.0F).requires_grad_();
  SGD sgd({param}, {.lr = 0.5, .momentum = 0.9});
  param.mutable_grad() = at::full({2}, 1.0F);
  sgd.step();
  const auto refused = [&](const std::function<void(OptimizerState&)>& change, const char* what) {
    auto state = sgd.state_dict();
    change(state);
    EXPECT_THAT([&] { sgd.load_state_dict(state); }, ThrowsMessage<UsageError>(HasSubstr(what)));
    EXPECT_EQ(sgd.lr(), 0.5);
    EXPECT_TRUE(at::equal(sgd.state_dict().state.at(0).at("momentum_buffer"), at::full({2}, 1.0F)));
  };
  refused([](auto& state) { state.param_groups.emplace_back(); }, "2 parameter groups, expected 1");
  refused([](auto& state) { state.param_groups[0].params.push_back(1); },
          "2 parameters in group 0");
  refused([](auto& state) { state.state[0]["momentum_buffer"] = at::full({3}, 0.0F); },
          "has the shape [3], expected [2]");
  refused([](auto& state) { state.param_groups[0].options.erase("lr"); }, "no number 'lr'");
  refused([](auto& state) { state.param_groups[0].options["momentum"] = -1.0; }, "momentum is -1");
  refused([](auto& state) { state.param_groups[0].options["nesterov"] = 1.0; },
          "no flag 'nesterov'");
}

}  // namespace
}  // namespace lockstep::optim
