#include "lockstep/train/checkpoint/optimizer_value.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/train/checkpoint/tensor_value.h"

namespace lockstep {
namespace {

using checkpoint::Dict;
using checkpoint::List;
using checkpoint::Tuple;
using checkpoint::Value;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(OptimizerValue, ComesBackAsItWas) {
  optim::OptimizerState state;
  state.state[1]["exp_avg"] = at::full({2}, 3.0F);
  state.param_groups.push_back({{0, 1},
                                {{"lr", 0.1},
                                 {"betas", std::vector<double>{0.9, 0.99}},
                                 {"amsgrad", false},
                                 {"fused", std::monostate()}}});
  Snapshot snapshot;
  const Value value = to_value(state, [&](const at::Tensor& t) { return snapshot.take(t); });
  const auto block = std::make_shared<std::vector<double>>(snapshot.bytes() / 8 + 1);
  snapshot.copy_to({block, block->data()});
  const auto back = optimizer_from_value(value, {});
  EXPECT_EQ(back.param_groups[0].options, state.param_groups[0].options);
  EXPECT_THAT(back.param_groups[0].params, ElementsAre(0, 1));
  EXPECT_TRUE(back.state.at(1).at("exp_avg").equal(at::full({2}, 3.0F)));
}

TEST(OptimizerValue, WhatTorchOptimDoesNotWriteIsRefused) {
  const auto expect = [](Value state, Value groups, const char* what) {
    const Value value = Dict{{"state", std::move(state)}, {"param_groups", std::move(groups)}};
    EXPECT_THAT([&] { optimizer_from_value(value, {}); }, ThrowsMessage<IoError>(HasSubstr(what)));
  };
  expect(List{}, List{}, "no 'state' and 'param_groups'");
  expect(Dict{{"zero", Dict{}}}, List{}, "a parameter without a number");
  expect(Dict{{0, 1}}, List{}, "is no dictionary");
  expect(Dict{{0, Dict{{"step", "one"}}}}, List{}, "has 'step' that is no tensor");
  expect(Dict{}, List{Dict{}}, "a group without a list 'params'");
  expect(Dict{}, List{Dict{{"params", List{"a"}}}}, "'params' that is no number");
}

TEST(OptimizerValue, OptionsThatAreNoNumbersAreLeftOut) {
  const Value value =
      Dict{{"state", Dict{}},
           {"param_groups",
            List{Dict{{"params", List{}}, {"name", "head"}, {"lr", 1}, {"x", List{"a"}}}}}};
  const auto group = optimizer_from_value(value, {}).param_groups[0];
  EXPECT_EQ(group.options.size(), 1U);
  EXPECT_EQ(std::get<double>(group.options.at("lr")), 1);
}

}  // namespace
}  // namespace lockstep
