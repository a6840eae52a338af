#include "lockstep/parallel/autograd/gradient_readiness.h"

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/parallel/autograd/used_map.h"

namespace lockstep::parallel {
namespace {

class AllTakePart : public GradientReadiness {
 public:
  explicit AllTakePart(std::size_t parameters) : parameters_(parameters) {}

  void begin(const std::vector<at::Tensor>& /*outputs*/) override {
    if (order_.size() < parameters_) {
      order_.clear();
    }
  }
  void passed(std::size_t /*parameter*/, bool /*has_gradient*/) override {}
  void hooked(std::size_t parameter, Ready ready) override {
    if (order_.size() < parameters_) {
      order_.push_back(parameter);
    }
    ready(parameter);
  }
  void end(Ready /*ready*/) override {}
  void all_started() override {}
  bool took_part(std::size_t /*parameter*/) override { return true; }
  void finish() override {}
  void shadow() override {  // As PyTorch: the order of the parameters.
    if (order_.size() < parameters_) {
      order_.resize(parameters_);
      std::iota(order_.begin(), order_.end(), std::size_t{0});
    }
  }
  const std::vector<std::size_t>* order() const override {
    return order_.size() == parameters_ ? &order_ : nullptr;
  }
  bool is_recordable() const override { return true; }
  bool needs_sink() const override { return false; }
  const char* advice() const override {
    return "use all outputs of forward in the loss, or set find_unused_parameters (or static_graph "
           "if the same ones are unused in every step)";
  }

 private:
  std::size_t parameters_;
  std::vector<std::size_t> order_;
};

class FindUnused : public GradientReadiness {
 public:
  FindUnused(UsedMap map, const GradientHooks& hooks) : map_(std::move(map)), hooks_(hooks) {}

  void begin(const std::vector<at::Tensor>& outputs) override {
    unused_ = hooks_.unreachable_from(outputs);
    first_ = true;
  }
  void passed(std::size_t parameter, bool has_gradient) override {
    if (has_gradient) {
      map_.mark(parameter);
    }
  }
  void hooked(std::size_t parameter, Ready ready) override {
    if (std::exchange(first_, false)) {
      for (const std::size_t unused : unused_) {
        ready(unused);
      }
    }
    ready(parameter);
  }
  void end(Ready /*ready*/) override {}
  void all_started() override { map_.start_sum(); }
  bool took_part(std::size_t parameter) override { return map_.anywhere(parameter); }
  void finish() override {
    map_.finish_sum();
    map_.clear();
  }
  void shadow() override { map_.start_sum_again(); }
  const std::vector<std::size_t>* order() const override { return nullptr; }
  bool is_recordable() const override { return false; }
  bool needs_sink() const override { return true; }
  const char* advice() const override {
    return "forward's outputs lead to them, but the loss did not reach them; use all outputs in "
           "the loss";
  }

 private:
  UsedMap map_;
  const GradientHooks& hooks_;
  std::vector<std::size_t> unused_;
  bool first_ = true;
};

class StaticGraph : public GradientReadiness {
 public:
  StaticGraph(UsedMap map, const std::vector<Parameter>& parameters)
      : map_(std::move(map)), parameters_(parameters), counts_(parameters.size(), 0) {}

  void begin(const std::vector<at::Tensor>& /*outputs*/) override {
    if (!learned_) {
      std::fill(counts_.begin(), counts_.end(), 0);
    }
    left_ = counts_;
    first_ = true;
    if (order_.size() < parameters_.size()) {
      order_.clear();
    }
  }
  void passed(std::size_t parameter, bool has_gradient) override {
    if (!learned_ && has_gradient) {
      map_.mark(parameter);
    }
  }
  void hooked(std::size_t parameter, Ready ready) override {
    if (!learned_) {
      ++counts_[parameter];
      return;  // It may come again: how often is what this step tells.
    }
    if (std::exchange(first_, false)) {
      each_unused(ready);
    }
    if (left_[parameter] == 0) {
      throw UsageError("parameter '" + parameters_[parameter].name +
                       "' got a gradient more often than in the first step: the graph is not "
                       "static; do not set static_graph");
    }
    if (--left_[parameter] == 0) {
      if (order_.size() < parameters_.size()) {
        order_.push_back(parameter);
      }
      ready(parameter);
    }
  }
  void end(Ready ready) override {
    if (!learned_) {
      map_.start_sum();
      for (std::size_t i = 0; i < counts_.size(); ++i) {
        ready(i);
      }
    } else if (order_.size() < parameters_.size()) {
      each_unused([this](std::size_t parameter) { order_.push_back(parameter); });
    }
  }
  void all_started() override {}
  bool took_part(std::size_t parameter) override { return map_.anywhere(parameter); }
  void finish() override {
    if (!learned_) {
      map_.finish_sum();
      learned_ = true;
    }
  }
  void shadow() override {
    throw UsageError("a static graph has the same steps on all ranks; do not set static_graph");
  }
  const std::vector<std::size_t>* order() const override {
    return order_.size() == parameters_.size() ? &order_ : nullptr;
  }
  bool is_recordable() const override { return learned_; }
  bool needs_sink() const override { return !learned_; }
  const char* advice() const override {
    return "they got one in the first step: the graph is not static; do not set static_graph";
  }

 private:
  void each_unused(Ready visit) const {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == 0) {
        visit(i);
      }
    }
  }

  UsedMap map_;
  const std::vector<Parameter>& parameters_;
  std::vector<int> counts_;  // Hooks per parameter in the first step.
  std::vector<int> left_;    // Hooks that this step still owes.
  std::vector<std::size_t> order_;
  bool learned_ = false;  // The first step is over: counts_ will not change.
  bool first_ = true;
};

}  // namespace

std::unique_ptr<GradientReadiness> GradientReadiness::make(ReadinessKind kind, const Group& group,
                                                           const std::vector<Parameter>& parameters,
                                                           const GradientHooks& hooks) {
  if (kind == ReadinessKind::kAll) {
    return std::make_unique<AllTakePart>(parameters.size());
  }
  UsedMap map(group, parameters.size(), parameters.front().tensor.device());
  if (kind == ReadinessKind::kFindUnused) {
    return std::make_unique<FindUnused>(std::move(map), hooks);
  }
  return std::make_unique<StaticGraph>(std::move(map), parameters);
}

}  // namespace lockstep::parallel
