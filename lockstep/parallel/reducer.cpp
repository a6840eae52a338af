#include "lockstep/parallel/reducer.h"

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/device/graph.h"
#include "lockstep/parallel/buckets/sync_bucket_plan.h"

namespace lockstep::parallel {

Reducer::Reducer(const Group& group, std::vector<Parameter> parameters,
                 const ReducerOptions& options, StepErrors& errors,
                 std::function<void(const CommunicationTimes&)> finished)
    : group_(group),
      parameters_(std::move(parameters)),
      options_(options),
      errors_(errors),
      finished_(std::move(finished)),
      communication_(group),
      buckets_(parameters_, communication_, options_.buckets) {
  make_first_buckets();
  buckets_.keep_memory_of_gradients();
  hooks_ = std::make_unique<GradientHooks>(
      parameters_, [this](std::size_t i, const at::Tensor& made) { on_hook(i, made); });
  readiness_ = GradientReadiness::make(options_.readiness, group_, parameters_, *hooks_);
}

void Reducer::make_first_buckets() {
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  auto plan = plan_buckets(buckets_.infos(order), options_.first_limits);
  // Gradients come roughly in the opposite order of their parameters.
  std::reverse(plan.begin(), plan.end());
  buckets_.build(plan);
}

void Reducer::register_comm_hook(CommHook hook) {
  const std::lock_guard lock(mutex_);
  if (steps_ > 0 || step_.is_synchronized()) {
    throw UsageError("register_comm_hook: training has begun; register the hook before");
  }
  communication_.use(std::move(hook), parameters_);
  buckets_.set_mode(options_.mode_with_hook);
  make_first_buckets();
}

void Reducer::step_in_backward(StepParameters step, std::vector<at::Tensor> others) {
  const std::lock_guard lock(mutex_);
  if (step_.is_synchronized()) {
    throw UsageError("register_optimizer_in_backward: a step has begun; call it between steps");
  }
  step_parameters_ = std::move(step);
  others_ = std::move(others);
}

void Reducer::before_forward() {
  const std::lock_guard lock(mutex_);
  if (step_.phase() == StepState::Phase::kInBackward) {
    abandon_step();
    failed_ = recorded_ ? "" : "an error ended its backward";
  }
  require_in_step();
  late_for_ = 0;
  hooks_->use_current_streams();
  if (const auto lost = hooks_->follow(); !lost.empty()) {
    throw UsageError("parameter " + lost +
                     ": it was moved after the module was wrapped, so its gradients would no "
                     "longer be averaged; move the module before you wrap it, or wrap it again");
  }
  recorded_ = device::Graph::recording() != nullptr;
  if (recorded_) {
    require_recordable();
  }
  if (!planned_anew_ && readiness_->order() != nullptr) {
    replan();
  }
}

void Reducer::require_recordable() const {
  if (!readiness_->is_recordable()) {
    throw UsageError(
        "a step with find_unused_parameters waits for the GPU, so it cannot be recorded; set "
        "static_graph if the same parameters are unused in every step");
  }
  if (!planned_anew_) {
    throw UsageError(
        "the step is recorded before the buckets are planned; run three steps eagerly before");
  }
  if (step_parameters_) {
    throw UsageError(
        "an optimizer steps in backward, so the step cannot be recorded; call its step() instead");
  }
  const bool travel = options_.buckets.mode != GradientBucket::Mode::kStay;
  communication_.require_recordable(travel ? parameters_ : std::vector<Parameter>());
}

// Nothing waits for this step any more.
void Reducer::abandon_step() {
  step_.end();
  buckets_.end_backward();
  if (recorded_) {
    communication_.finish();
  }
}

// Going on would add this rank's step to a different step of the others.
void Reducer::require_in_step() const {
  if (!failed_.empty()) {
    throw UsageError(
        "a step before this one failed here (" + failed_ +
        "), so this rank is out of step with the others; end the job, or destroy() the "
        "group, form a new group and wrap the module again");
  }
}

// backward() throws the errors; what failed once is not tried again.
template <class Function>
void Reducer::in_step(Function&& function) {
  errors_.run([&] {
    try {
      function();
    } catch (const std::exception& error) {
      abandon_step();
      failed_ = recorded_ ? "" : error.what();  // Nothing of a recording ran.
      throw;
    }
  });
}

void Reducer::replan() {
  const auto& order = *readiness_->order();
  const auto own = plan_buckets_in_order(buckets_.infos(order), order, options_.limits);
  buckets_.build(sync_bucket_plan(group_, own, parameters_.front().tensor.device()));
  planned_anew_ = true;
}

void Reducer::expect_backward(const std::vector<at::Tensor>& outputs) {
  const std::lock_guard lock(mutex_);
  require_in_step();
  std::vector<std::size_t> sizes;
  for (const auto& bucket : buckets()) {
    sizes.push_back(bucket.parameters().size());
  }
  outer_is_watched_ = false;  // That of a backward that threw.
  step_.expect_backward(parameters_.size(), std::move(sizes));
  buckets_.begin_step();
  readiness_->begin(outputs);
}

void Reducer::on_hook(std::size_t parameter, const at::Tensor& made) {
  const std::lock_guard lock(mutex_);
  if (!step_.is_synchronized() && late_for_ != 0) {
    errors_.run([&] { reject_late(parameter); });
  }
  readiness_->passed(parameter, parameters_[parameter].tensor.grad().defined());
  if (!step_.is_synchronized()) {
    return;
  }
  watch_this_backward();
  in_step([&] {
    if (step_.begin_backward()) {
      buckets_.begin_backward();
    }
    buckets_.gradient_made(parameter, made);
    readiness_->hooked(parameter, [this](std::size_t ready) { mark_ready(ready); });
  });
}

void Reducer::mark_ready(std::size_t parameter) {
  if (!step_.mark_ready(parameter)) {
    throw UsageError("parameter '" + parameters_[parameter].name +
                     "' got a gradient twice in one step, after it had been sent; use it inside "
                     "forward only, once per backward, or "
                     "set static_graph");
  }
  step_.count_in(buckets_.put(parameter));
  bool started = false;
  while (const auto bucket = step_.next_complete_bucket()) {
    communication_.start(buckets_[*bucket]);
    started = true;
  }
  if (started && step_.all_started()) {
    readiness_->all_started();
  }
}

void Reducer::on_backward_done() {
  const std::lock_guard lock(mutex_);
  // A pass around this one may bring a parameter another gradient, which would stay on this rank.
  const bool may_bring_more = outer_is_watched_ || !step_.all_started();
  if (!step_.is_synchronized() || (may_bring_more && backward_is_nested())) {
    return;
  }
  step_.end();
  buckets_.end_backward();
  in_step([this] {
    readiness_->end([this](std::size_t ready) { mark_ready(ready); });
    if (!step_.all_started()) {
      reject_unfinished();
    }
    write_back();
  });
}

void Reducer::write_back() {
  for (std::size_t b = 0; b < buckets().size(); ++b) {
    communication_.wait_for(b);
    write_back(buckets_[b]);
  }
  if (!others_.empty()) {
    step_parameters_(others_);
  }
  readiness_->finish();
  ++steps_;
  auto times = communication_.finish();
  times.copied = buckets_.copied();
  times.moved = buckets_.moved();
  finished_(times);
}

void Reducer::write_back(GradientBucket& bucket) {
  std::vector<at::Tensor> stepped;
  for (std::size_t i = 0; i < bucket.parameters().size(); ++i) {
    const std::size_t parameter = bucket.parameters()[i];
    if (readiness_->took_part(parameter)) {
      bucket.write_back(i);
    }
    stepped.push_back(parameters_[parameter].tensor);
  }
  if (step_parameters_) {
    step_parameters_(stepped);
  }
}

void Reducer::shadow_backward() {
  const std::lock_guard lock(mutex_);
  in_step([this] {
    for (std::size_t b = 0; b < buckets().size(); ++b) {
      communication_.start_zeros(buckets_[b]);
    }
    readiness_->shadow();  // Where backward does it: a hook may have collectives behind its first.
    for (std::size_t b = 0; b < buckets().size(); ++b) {
      communication_.wait_for(b);
    }
    readiness_->finish();
    communication_.finish();
    ++steps_;
  });
}

void Reducer::reject_unfinished() const {
  std::vector<const Parameter*> missing;
  for (const std::size_t i : step_.missing()) {
    missing.push_back(&parameters_[i]);
  }
  throw UsageError(std::to_string(missing.size()) + " of " + std::to_string(parameters_.size()) +
                   " parameters got no gradient: " + names_of(missing) + "; " +
                   readiness_->advice());
}

}  // namespace lockstep::parallel
