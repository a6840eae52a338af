#include "lockstep/train/checkpoint/optimizer_value.h"

#include <ATen/ops/full.h>

#include "lockstep/base/error.h"
#include "lockstep/train/checkpoint/tensor_value.h"

namespace lockstep {
namespace {

using checkpoint::Dict;
using checkpoint::Entry;
using checkpoint::List;
using checkpoint::Tuple;
using checkpoint::Value;

Value option_value(const optim::OptionValue& option) {
  if (const auto* flag = std::get_if<bool>(&option)) {
    return *flag;
  }
  if (const auto* number = std::get_if<double>(&option)) {
    return *number;
  }
  if (const auto* numbers = std::get_if<std::vector<double>>(&option)) {
    return Tuple{List(numbers->begin(), numbers->end())};
  }
  return {};
}

std::optional<double> number_of(const Value& value) {
  if (const auto* number = value.get_if<double>()) {
    return *number;
  }
  if (const auto* integer = value.get_if<std::int64_t>()) {
    return static_cast<double>(*integer);
  }
  return std::nullopt;
}

const List* items_of(const Value& value) {
  const auto* tuple = value.get_if<Tuple>();
  return tuple != nullptr ? &tuple->items : value.get_if<List>();
}

std::optional<optim::OptionValue> option_of(const Value& value, const MapLocation& map_location) {
  if (value.is_none()) {
    return optim::OptionValue();
  }
  if (const auto* flag = value.get_if<bool>()) {
    return *flag;
  }
  if (const auto number = number_of(value)) {
    return *number;
  }
  if (const auto* tensor = value.get_if<checkpoint::Tensor>()) {  // A learning rate on a GPU.
    const auto number = to_tensor(*tensor, map_location);
    return number.numel() == 1 ? std::optional<optim::OptionValue>(number.item<double>())
                               : std::nullopt;
  }
  const auto* items = items_of(value);
  if (items == nullptr) {
    return std::nullopt;
  }
  std::vector<double> numbers;
  for (const Value& item : *items) {
    const auto number = number_of(item);
    if (!number) {
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  return numbers;
}

[[noreturn]] void fail(const std::string& what) {
  throw IoError("the optimizer's state " + what + ", expected that of torch.optim");
}

optim::OptimizerState::Group group_of(const Value& value, const MapLocation& map_location) {
  const auto* dict = value.get_if<Dict>();
  const auto* params = value.find("params");
  const auto* numbers = params == nullptr ? nullptr : items_of(*params);
  if (dict == nullptr || numbers == nullptr) {
    fail("has a group without a list 'params'");
  }
  optim::OptimizerState::Group group;
  for (const Value& number : *numbers) {
    const auto* index = number.get_if<std::int64_t>();
    if (index == nullptr) {
      fail("has a parameter in 'params' that is no number");
    }
    group.params.push_back(*index);
  }
  for (const Entry& entry : *dict) {
    const auto* name = entry.key.get_if<std::string>();
    if (name == nullptr || *name == "params") {
      continue;
    }
    if (auto option = option_of(entry.value, map_location)) {
      group.options[*name] = std::move(*option);
    }
  }
  return group;
}

std::map<std::string, at::Tensor> state_of(const Value& value, const MapLocation& map_location) {
  const auto* dict = value.get_if<Dict>();
  if (dict == nullptr) {
    fail("has a parameter whose state is no dictionary");
  }
  std::map<std::string, at::Tensor> state;
  for (const Entry& entry : *dict) {
    const auto* name = entry.key.get_if<std::string>();
    if (name == nullptr) {
      fail("has a tensor without a name");
    }
    if (const auto* tensor = entry.value.get_if<checkpoint::Tensor>()) {
      state[*name] = to_tensor(*tensor, map_location);
    } else if (const auto number = number_of(entry.value)) {
      state[*name] = at::full({}, *number, at::kFloat);  // Old releases count steps like this.
    } else if (!entry.value.is_none()) {
      fail("has '" + *name + "' that is no tensor");
    }
  }
  return state;
}

}  // namespace

Value to_value(const optim::OptimizerState& state,
               const std::function<checkpoint::Tensor(const at::Tensor&)>& take) {
  Dict states;
  for (const auto& [number, tensors] : state.state) {
    Dict dict;
    for (const auto& [name, tensor] : tensors) {
      try {
        dict.push_back({name, tensor.defined() ? Value(take(tensor)) : Value()});
      } catch (const UsageError& error) {
        throw UsageError("the optimizer's '" + name + "' of parameter " + std::to_string(number) +
                         ": " + error.what());
      }
    }
    states.push_back({number, std::move(dict)});
  }
  List groups;
  for (const auto& group : state.param_groups) {
    Dict dict;
    for (const auto& [name, option] : group.options) {
      dict.push_back({name, option_value(option)});
    }
    dict.push_back({"params", List(group.params.begin(), group.params.end())});
    groups.push_back(std::move(dict));
  }
  return Dict{{"state", std::move(states)}, {"param_groups", std::move(groups)}};
}

optim::OptimizerState optimizer_from_value(const Value& value, const MapLocation& map_location) {
  const auto* states = value.find("state");
  const auto* groups = value.find("param_groups");
  if (states == nullptr || groups == nullptr || states->get_if<Dict>() == nullptr ||
      groups->get_if<List>() == nullptr) {
    fail("has no 'state' and 'param_groups'");
  }
  optim::OptimizerState result;
  for (const Entry& entry : *states->get_if<Dict>()) {
    const auto* number = entry.key.get_if<std::int64_t>();
    if (number == nullptr) {
      fail("has a parameter without a number");
    }
    result.state[*number] = state_of(entry.value, map_location);
  }
  for (const Value& group : *groups->get_if<List>()) {
    result.param_groups.push_back(group_of(group, map_location));
  }
  return result;
}

}  // namespace lockstep
