#include "lockstep/train/checkpoint/scaler_value.h"

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using checkpoint::Dict;
using checkpoint::Value;

[[noreturn]] void reject_scaler(const std::string& what) {
  throw IoError("the scaler's state " + what + ", expected that of torch.amp.GradScaler");
}

double scaler_number(const Value& state, const char* key) {
  const Value* const value = state.find(key);
  if (value != nullptr) {
    if (const auto* number = value->get_if<double>()) {
      return *number;
    }
    if (const auto* integer = value->get_if<std::int64_t>()) {
      return static_cast<double>(*integer);  // GradScaler(init_scale=1024) has an integer.
    }
  }
  reject_scaler(std::string("has no number '") + key + "'");
}

std::int64_t scaler_integer(const Value& state, const char* key) {
  const Value* const value = state.find(key);
  const auto* integer = value == nullptr ? nullptr : value->get_if<std::int64_t>();
  if (integer == nullptr) {
    reject_scaler(std::string("has no integer '") + key + "'");
  }
  return *integer;
}

}  // namespace

Value to_value(const std::optional<amp::GradScalerState>& state) {
  if (!state) {
    return Dict{};
  }
  return Dict{{"scale", state->scale},
              {"growth_factor", state->growth_factor},
              {"backoff_factor", state->backoff_factor},
              {"growth_interval", state->growth_interval},
              {"_growth_tracker", state->growth_tracker}};
}

std::optional<amp::GradScalerState> scaler_from_value(const Value& value) {
  const auto* dict = value.get_if<Dict>();
  if (dict == nullptr) {
    reject_scaler("is " + std::string(kind_of(value)));
  }
  if (dict->empty()) {
    return std::nullopt;
  }
  return amp::GradScalerState{.scale = scaler_number(value, "scale"),
                              .growth_factor = scaler_number(value, "growth_factor"),
                              .backoff_factor = scaler_number(value, "backoff_factor"),
                              .growth_interval = scaler_integer(value, "growth_interval"),
                              .growth_tracker = scaler_integer(value, "_growth_tracker")};
}

}  // namespace lockstep
