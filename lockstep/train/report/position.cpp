#include "lockstep/train/report/position.h"

#include <string>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

template <class T>
T number(const checkpoint::Value& value, const char* key) {
  const auto* found = value.find(key);
  const auto* number = found == nullptr ? nullptr : found->get_if<T>();
  if (number == nullptr) {
    throw IoError(
        std::string("the checkpoint's metrics have no number '") + key +
        "', so it is not of a run that can go on; HINT: --init-weights takes its weights");
  }
  return *number;
}

}  // namespace

checkpoint::Value to_value(const Position& position) {
  return checkpoint::Dict{{"epoch", position.epoch},
                          {"step_in_epoch", position.step_in_epoch},
                          {"step", position.step},
                          {"best_top1", position.best_top1},
                          {"best_epoch", position.best_epoch},
                          {"stale_epochs", position.stale_epochs},
                          {"lr", position.lr}};
}

Position position_from(const checkpoint::Value& value, double lr) {
  return {.epoch = number<std::int64_t>(value, "epoch"),
          .step_in_epoch = number<std::int64_t>(value, "step_in_epoch"),
          .step = number<std::int64_t>(value, "step"),
          .best_top1 = number<double>(value, "best_top1"),
          .best_epoch = number<std::int64_t>(value, "best_epoch"),
          .stale_epochs = number<std::int64_t>(value, "stale_epochs"),
          .lr = value.find("lr") == nullptr ? lr : number<double>(value, "lr")};
}

}  // namespace lockstep::train
