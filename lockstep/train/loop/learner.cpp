#include "lockstep/train/loop/learner.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/parallel/nn/sync_batch_norm.h"
#include "lockstep/train/checkpoint/scaler_value.h"
#include "lockstep/train/checkpoint/scheduler_value.h"
#include "lockstep/train/checkpoint/tensor_value.h"
#include "lockstep/train/loop/copied.h"
#include "lockstep/train/loop/gpu_settings.h"
#include "lockstep/train/loop/nonfinite.h"
#include "lockstep/train/loop/recipe.h"

namespace lockstep::train {
namespace {

constexpr const char* kMasters = "master_weights";

void make_channels_last(torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  for (auto& param : module.parameters()) {
    if (param.dim() == 4) {
      param.set_data(param.contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
}

}  // namespace

Learner::Learner(const TrainConfig& config, const BatchPlan& batches,
                 std::shared_ptr<models::Network> network, const Group& group)
    : config_(config),
      batches_(batches),
      group_(group),
      device_(group.device()),
      network_(std::move(network)) {
  network_->to(device_);
  if (config.channels_last) {
    make_channels_last(*network_);
  }
  if (config.sync_bn && convert_sync_batchnorm(*network_->body(), group_) == 0) {
    throw UsageError("--sync-bn: the network has no batch normalization; leave the flag out");
  }
  amp_.emplace(*network_, precision_of(config));
  DistributedDataParallelOptions options;
  options.find_unused_parameters = config.find_unused_parameters;
  ddp_.emplace(network_, group_, options);
  if (checks_gradients(config, device_)) {
    check_.emplace(*ddp_, amp::GradientCheckOptions{.policy = config.nonfinite == "skip"
                                                                  ? amp::NonFinitePolicy::kSkip
                                                                  : amp::NonFinitePolicy::kAbort});
  }
  optimizer_ = make_optimizer(config, initial_lr(config, batches), amp_->params());
  scheduler_ = make_scheduler(config, *optimizer_, batches.steps_per_epoch);
  if (config.model_ema) {
    ema_.emplace(*network_, optim::ModelEmaOptions{.decay = config.model_ema_decay});
  }
  network_->train();
}

at::Tensor Learner::prepared(const at::Tensor& batch) const {
  auto input = amp_->input(batch.to(device_, /*non_blocking=*/true));
  return config_.channels_last && input.dim() == 4
             ? input.contiguous(at::MemoryFormat::ChannelsLast)
             : input;
}

void Learner::step(const data::Sample& batch, Tally& tally) {
  if (!recorded_) {
    recorded_.emplace(
        [this, &tally](const at::Tensor& data, const at::Tensor& target) {
          // A recording that failed leaves gradients which were never computed.
          amp_->zero_grad(*optimizer_);
          auto loss = backward(data, target, tally);
          update_weights();
          return loss;
        },
        GraphedStepOptions{.device = device_,
                           .record = records_steps(config_, batches_, device_),
                           .before_recording = [this] { wait_for_gpu(); }});
  }
  (*recorded_)(batch.data, batch.target);
  scheduler_->step();
}

void Learner::backward(const data::Sample& batch, bool is_last, Tally& tally) {
  std::optional<DistributedDataParallel<models::Network>::NoSync> alone;
  if (!is_last) {
    alone.emplace(ddp_->no_sync());
  }
  backward(batch.data, batch.target, tally);
}

at::Tensor Learner::backward(const at::Tensor& data, const at::Tensor& target, Tally& tally) {
  const auto there = target.to(device_, /*non_blocking=*/true);
  at::Tensor loss;
  {
    const auto autocast = amp_->autocast(device_.type());
    const auto scores = (*ddp_)(prepared(data)).to(at::kFloat);
    loss = loss_of(scores, there, config_.smoothing);
    tally.add(scores, there, loss);
  }
  const auto scaled =
      batches_.accumulation > 1 ? loss / static_cast<double>(batches_.accumulation) : loss;
  amp_->scale(scaled).backward();
  return loss;
}

void Learner::update() {
  update_weights();
  scheduler_->step();
}

bool Learner::are_gradients_finite() {
  skipped_.reset();
  if (check_) {
    wait_for_gpu();  // The check reads from it, so the step is not recorded.
  }
  try {
    if (!check_ || check_->check(step_, &amp_->scaler())) {
      return true;
    }
  } catch (const UsageError& error) {
    throw Error(error.what() +
                std::string("; HINT: a smaller --lr, --clip-grad 1, or --nonfinite skip"));
  }
  skipped_ = check_->first();
  return false;
}

void Learner::update_weights() {
  if (!are_gradients_finite()) {
    amp_->zero_grad(*optimizer_);
    return;
  }
  if (config_.clip_grad > 0) {
    amp_->unscale_(*optimizer_);
    clip_gradients(config_, amp_->params());
  }
  amp_->step(*optimizer_);
  amp_->zero_grad(*optimizer_);
  if (ema_) {
    ema_->update(*network_);
  }
}

at::Tensor Learner::evaluate(const at::Tensor& batch) {
  const at::NoGradGuard no_grad;
  network_->eval();
  const auto autocast = amp_->autocast(device_.type());
  auto scores = network_->forward(prepared(batch)).to(at::kFloat);
  network_->train();
  return scores;
}

void Learner::share_buffers() {
  const at::NoGradGuard no_grad;
  for (const auto& buffer : network_->buffers()) {
    group_.broadcast(buffer).wait();
  }
}

Learner::Averages::Averages(Learner& learner) : learner_(learner) {
  if (learner.ema_) {
    for (const auto& [name, tensor] : state_dict(learner.module())) {
      weights_.push_back(tensor.clone());
    }
    learner.ema_->copy_to(learner.module());
  }
}

Learner::Averages::~Averages() {
  const at::NoGradGuard no_grad;
  if (!weights_.empty()) {
    const auto state = state_dict(learner_.module());
    for (std::size_t i = 0; i < state.size(); ++i) {
      state[i].second.copy_(weights_[i]);
    }
  }
}

StateDict Learner::masters() const {
  StateDict state;
  if (precision_of(config_).level == amp::OptLevel::kO2) {
    const auto names = network_->named_parameters().keys();
    for (std::size_t i = 0; i < names.size(); ++i) {
      state.emplace_back(names[i], amp_->params().at(i).detach());
    }
  }
  return state;
}

void Learner::save_to(Checkpoint& checkpoint) const {
  checkpoint.model = state_dict(*network_);
  if (ema_) {
    for (const auto& item : ema_->averages()) {
      checkpoint.model_ema.emplace_back(item.key(), item.value());
    }
  }
  checkpoint.optimizer = optimizer_->state_dict();
  checkpoint.lr_scheduler = lockstep::to_value(scheduler_->state_dict());
  if (const auto scaler = amp_->scaler().state_dict()) {
    checkpoint.scaler = lockstep::to_value(scaler);
  }
  if (checkpoint::Dict weights; !masters().empty()) {
    for (const auto& [name, tensor] : masters()) {
      weights.push_back({name, copied(tensor)});
    }
    checkpoint.others.push_back({kMasters, std::move(weights)});
  }
}

void Learner::load(const Checkpoint& checkpoint) {
  if (!checkpoint.optimizer || checkpoint.lr_scheduler.is_none()) {
    throw UsageError(
        "the checkpoint has no optimizer or no lr_scheduler, so a run cannot go on from it; HINT: "
        "--init-weights starts a new run with its weights");
  }
  if (ema_) {
    load_state_dict(*ema_, checkpoint.model_ema);
  }
  load_state_dict(*network_, checkpoint.model);
  amp_->copy_model_to_masters();
  const checkpoint::Value others(checkpoint.others);
  if (const auto* weights = others.find(kMasters)) {
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : masters()) {
      const auto* const value = weights->find(name);
      const auto* const saved = value == nullptr ? nullptr : value->get_if<checkpoint::Tensor>();
      if (saved == nullptr || saved->sizes != tensor.sizes()) {
        throw IoError("the checkpoint's master weights have no '" + name +
                      "' of this network's shape; HINT: --init-weights takes its weights alone");
      }
      tensor.copy_(to_tensor(*saved, "cpu"));
    }
  }
  optimizer_->load_state_dict(*checkpoint.optimizer);
  scheduler_->load_state_dict(scheduler_from_value(checkpoint.lr_scheduler));
  if (amp_->scaler().is_enabled()) {
    amp_->scaler().load_state_dict(scaler_from_value(checkpoint.scaler));
  }
}

std::vector<std::string> Learner::load_weights(const Checkpoint& checkpoint) {
  const auto& weights = checkpoint.model_ema.empty() ? checkpoint.model : checkpoint.model_ema;
  const StateDict own = state_dict(*network_);
  const std::map<std::string, at::Tensor> known(own.begin(), own.end());
  StateDict fitting;
  for (const auto& [name, tensor] : named_as(own, weights)) {
    if (const auto found = known.find(name);
        found != known.end() && found->second.sizes() == tensor.sizes()) {
      fitting.emplace_back(name, tensor);
    }
  }
  if (fitting.empty()) {
    throw UsageError("none of the checkpoint's " + std::to_string(weights.size()) +
                     " tensors has a name and shape of this network; HINT: give the --model that "
                     "it was trained with");
  }
  auto missing = load_state_dict(*network_, fitting, {.strict = false}).missing_keys;
  amp_->copy_model_to_masters();
  if (ema_) {
    ema_->set(*network_);
  }
  return missing;
}

std::int64_t Learner::parameters() const {
  std::int64_t count = 0;
  for (const auto& param : ddp_->parameters()) {
    count += param.numel();
  }
  return count;
}

}  // namespace lockstep::train
