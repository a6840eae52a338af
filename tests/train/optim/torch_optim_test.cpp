// The optimizers beside torch.optim's: the same bits, and a state that goes from one to the other.
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <gmock/gmock.h>
#include <torch/utils.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lockstep/base/fd.h"
#include "lockstep/base/text/text.h"
#include "lockstep/train/optim/adam.h"
#include "lockstep/train/optim/sgd.h"
#include "tests/parity/tensor_file.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::optim {
namespace {

using Params = std::vector<at::Tensor>;
using Made = std::unique_ptr<Optimizer>;

constexpr int kHalf = 6;
constexpr int kEnd = 12;

// As in run_optim.py.
struct Case {
  std::string name;
  std::function<Made(const Params&)> make;
};

template <class Kind, class Options>
Case one(const char* name, const Options& options) {
  return {name,
          [options](const Params& params) { return std::make_unique<Kind>(params, options); }};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      one<SGD>("sgd", SGDOptions{.lr = 0.1}),
      one<SGD>("sgd_momentum", SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-2}),
      one<SGD>("sgd_nesterov", SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}),
      one<SGD>("sgd_dampened",
               SGDOptions{.lr = 0.1, .momentum = 0.7, .dampening = 0.3, .maximize = true}),
      {"sgd_groups",
       [](const Params& params) {
         return std::make_unique<SGD>(std::vector<ParamGroup<SGDOptions>>{
             {{params[0], params[1]}, {.lr = 0.2}},
             {{params[2], params[3]}, {.lr = 0.1, .momentum = 0.5, .weight_decay = 0.1}}});
       }},
      one<SGD>("sgd_double", SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-2}),
      one<Adam>("adam", AdamOptions{}),
      one<Adam>("adam_decay", AdamOptions{.lr = 0.02, .betas = {0.8, 0.95}, .weight_decay = 0.1}),
      one<Adam>("adam_amsgrad",
                AdamOptions{.lr = 0.02, .eps = 1e-6, .amsgrad = true, .maximize = true}),
      one<AdamW>("adamw", AdamWOptions{}),
      one<AdamW>("adamw_amsgrad", AdamWOptions{.lr = 0.02, .weight_decay = 0.2, .amsgrad = true}),
  };
  return all;
}

Params make_params(const std::string& name) {
  const auto type = name.ends_with("double") ? at::kDouble : at::kFloat;
  torch::manual_seed(7);
  Params params;
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{7, 5}, {3}, {2, 3, 4, 4}, {1}}) {
    params.push_back(at::randn(shape, type).requires_grad_());
  }
  return params;
}

void train(Params& params, Optimizer& optimizer, int first, int last) {
  for (int step = first; step < last; ++step) {
    for (std::size_t i = 0; i < params.size(); ++i) {
      const int number = static_cast<int>(i);
      torch::manual_seed(static_cast<std::uint64_t>(1000 * step + number));
      const bool none = (number + step) % 4 == 0 && i == 1;
      params[i].mutable_grad() = none ? at::Tensor() : at::randn_like(params[i].detach());
    }
    if (step == kHalf + 2) {
      for (std::size_t group = 0; group < optimizer.groups(); ++group) {
        optimizer.set_lr(group, optimizer.lr(group) * 0.5);
      }
    }
    optimizer.step();
  }
}

parity::Tensors contents(const Params& params, const Optimizer& optimizer) {
  parity::Tensors tensors;
  for (std::size_t i = 0; i < params.size(); ++i) {
    tensors["param." + std::to_string(i)] = params[i].detach();
  }
  for (const auto& [number, state] : optimizer.state_dict().state) {
    for (const auto& [key, value] : state) {
      tensors["state." + std::to_string(number) + "." + key] = value;
    }
  }
  return tensors;
}

void expect_same(const parity::Tensors& ours, const parity::Tensors& pythons) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : pythons) {
    names.push_back(name);
    ASSERT_TRUE(ours.contains(name)) << name;
    EXPECT_TRUE(at::equal(ours.at(name), tensor)) << name << " has other bits";
  }
  EXPECT_EQ(ours.size(), names.size());
}

nlohmann::json json_of(const OptionValue& value) {
  return std::visit(
      [](const auto& held) -> nlohmann::json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>) {
          return nullptr;
        } else {
          return held;
        }
      },
      value);
}

nlohmann::json groups_of(const OptimizerState& state) {
  auto groups = nlohmann::json::array();
  for (const auto& group : state.param_groups) {
    nlohmann::json saved = {{"params", group.params}};
    for (const auto& [name, value] : group.options) {
      saved[name] = json_of(value);
    }
    groups.push_back(saved);
  }
  return groups;
}

OptionValue value_of(const nlohmann::json& json) {
  if (json.is_null()) {
    return {};
  }
  if (json.is_boolean()) {
    return json.get<bool>();
  }
  return json.is_array() ? OptionValue(json.get<std::vector<double>>())
                         : OptionValue(json.get<double>());
}

// The state as Python wrote it.
OptimizerState state_from(const parity::Tensors& tensors, const std::string& groups_file) {
  OptimizerState state;
  for (const auto& saved : nlohmann::json::parse(read_file(groups_file))) {
    auto& group = state.param_groups.emplace_back();
    for (const auto& [name, value] : saved.items()) {
      if (name == "params") {
        group.params = value.get<std::vector<std::int64_t>>();
      } else {
        group.options[name] = value_of(value);
      }
    }
  }
  for (const auto& [name, tensor] : tensors) {
    const auto parts = split(name, '.');
    if (parts[0] == "state") {
      state.state[std::stoll(parts[1])][parts[2]] = tensor;
    }
  }
  return state;
}

class OptimTest : public ::testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }
  void run_python(const std::vector<std::string>& words = {}) const {
    std::vector<std::string> arguments{folder_.file("")};
    arguments.insert(arguments.end(), words.begin(), words.end());
    test::run_python("train/optim/run_optim.py", arguments);
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(OptimTest, HasTheBitsOfPythonAndGoesOnFromItsState) {
  run_python();
  for (const auto& each : cases()) {
    SCOPED_TRACE(each.name);
    auto params = make_params(each.name);
    auto optimizer = each.make(params);
    train(params, *optimizer, 0, kHalf);
    const auto half = parity::read(file(each.name + ".half"));
    expect_same(contents(params, *optimizer), half);
    train(params, *optimizer, kHalf, kEnd);
    const auto end = parity::read(file(each.name + ".end"));
    expect_same(contents(params, *optimizer), end);

    auto again = make_params(each.name);
    auto continued = each.make(again);
    for (std::size_t i = 0; i < again.size(); ++i) {
      again[i].detach().copy_(half.at("param." + std::to_string(i)));
    }
    continued->load_state_dict(state_from(half, file(each.name + ".groups")));
    train(again, *continued, kHalf, kEnd);
    expect_same(contents(again, *continued), end);
  }
}

TEST_F(OptimTest, PythonGoesOnFromItsState) {
  std::map<std::string, parity::Tensors> expected;
  for (const auto& each : cases()) {
    auto params = make_params(each.name);
    auto optimizer = each.make(params);
    train(params, *optimizer, 0, kHalf);
    parity::write(file(each.name + ".ours"), contents(params, *optimizer));
    std::ofstream(file(each.name + ".json")) << groups_of(optimizer->state_dict());
    train(params, *optimizer, kHalf, kEnd);
    expected[each.name] = contents(params, *optimizer);
  }
  run_python({"continue"});
  for (const auto& [name, ours] : expected) {
    SCOPED_TRACE(name);
    expect_same(ours, parity::read(file(name + ".continued")));
  }
}

}  // namespace
}  // namespace lockstep::optim
