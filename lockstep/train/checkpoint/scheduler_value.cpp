#include "lockstep/train/checkpoint/scheduler_value.h"

#include <optional>
#include <type_traits>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using checkpoint::Counter;
using checkpoint::Dict;
using checkpoint::Entry;
using checkpoint::List;
using checkpoint::Tuple;
using checkpoint::Value;
using Counts = std::map<std::int64_t, std::int64_t>;

Value scheduler_option(const optim::SchedulerValue& option) {
  return std::visit(
      []<class T>(const T& held) -> Value {
        if constexpr (std::is_same_v<T, Counts>) {
          return Counter{{held.begin(), held.end()}};
        } else if constexpr (std::is_arithmetic_v<T>) {
          return held;
        } else {
          return List(held.begin(), held.end());
        }
      },
      option);
}

// Nothing if an item of the list is no such number.
template <class T>
std::optional<std::vector<T>> numbers_of(const List& list) {
  std::vector<T> numbers;
  for (const Value& item : list) {
    const auto* integer = item.get_if<std::int64_t>();
    if (const auto* number = item.get_if<T>()) {
      numbers.push_back(*number);
    } else if (std::is_same_v<T, double> && integer != nullptr) {
      numbers.push_back(static_cast<T>(*integer));
    } else {
      return std::nullopt;
    }
  }
  return numbers;
}

// Rates are numbers, also where Python has 1 for 1.0; milestones are integers.
std::optional<optim::SchedulerValue> scheduler_list(const std::string& name, const List& list) {
  if (name.ends_with("milestones")) {
    const auto integers = numbers_of<std::int64_t>(list);
    return integers ? std::optional<optim::SchedulerValue>(*integers) : std::nullopt;
  }
  const auto numbers = numbers_of<double>(list);
  return numbers ? std::optional<optim::SchedulerValue>(*numbers) : std::nullopt;
}

// A file that an older reader of ours wrote again has a dictionary.
std::optional<optim::SchedulerValue> counts_of(const Dict& dict) {
  Counts counts;
  for (const Entry& entry : dict) {
    const auto* number = entry.key.get_if<std::int64_t>();
    const auto* count = entry.value.get_if<std::int64_t>();
    if (number == nullptr || count == nullptr) {
      return std::nullopt;
    }
    counts[*number] = *count;
  }
  return counts;
}

std::optional<optim::SchedulerValue> scheduler_option_of(const std::string& name,
                                                         const Value& value) {
  if (const auto* flag = value.get_if<bool>()) {
    return *flag;
  }
  if (const auto* integer = value.get_if<std::int64_t>()) {
    return *integer;
  }
  if (const auto* number = value.get_if<double>()) {
    return *number;
  }
  if (const auto* list = value.get_if<List>()) {
    return scheduler_list(name, *list);
  }
  if (const auto* tuple = value.get_if<Tuple>()) {
    return scheduler_list(name, tuple->items);
  }
  if (const auto* counter = value.get_if<Counter>()) {
    return Counts(counter->counts.begin(), counter->counts.end());
  }
  if (const auto* dict = value.get_if<Dict>()) {
    return counts_of(*dict);
  }
  return std::nullopt;
}

}  // namespace

Value to_value(const optim::SchedulerState& state) {
  Dict dict;
  for (const auto& [name, option] : state.values) {
    dict.push_back({name, scheduler_option(option)});
  }
  if (!state.schedulers.empty()) {
    List schedulers;
    for (const auto& scheduler : state.schedulers) {
      schedulers.push_back(to_value(scheduler));
    }
    dict.push_back({"_schedulers", std::move(schedulers)});
  }
  return dict;
}

optim::SchedulerState scheduler_from_value(const Value& value) {
  const auto* dict = value.get_if<Dict>();
  if (dict == nullptr) {
    throw IoError("the schedule's state is " + std::string(kind_of(value)) +
                  ", expected the dictionary of lr_scheduler.state_dict()");
  }
  optim::SchedulerState state;
  for (const Entry& entry : *dict) {
    const auto* name = entry.key.get_if<std::string>();
    const auto* inner = entry.value.get_if<List>();
    if (name == nullptr) {
      continue;
    }
    if (*name == "_schedulers" && inner != nullptr) {
      for (const Value& scheduler : *inner) {
        state.schedulers.push_back(scheduler_from_value(scheduler));
      }
    } else if (auto option = scheduler_option_of(*name, entry.value)) {
      state.values[*name] = std::move(*option);
    }
  }
  return state;
}

}  // namespace lockstep
