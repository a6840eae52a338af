#include "benchmarks/step/training.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/nn/functional/loss.h>
#include <torch/utils.h>

#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/models/convnet.h"
#include "lockstep/models/mlp.h"
#include "lockstep/models/resnet.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/hooks/default_hooks.h"
#include "lockstep/parallel/hooks/power_sgd_hook.h"
#include "lockstep/train/optim/zero_redundancy_optimizer.h"

namespace lockstep::bench {
namespace {

// What a network is given and what it decides between.
struct Task {
  std::vector<std::int64_t> shape;
  std::int64_t classes = 10;
  bool channels_last = false;
};

Task task_of(const TrainingOptions& options) {
  if (options.model == "mlp") {
    return {.shape = {784}};
  }
  if (options.model == "convnet") {
    return {.shape = {1, 28, 28}};
  }
  return options.cuda ? Task{.shape = {3, 224, 224}, .classes = 1000, .channels_last = true}
                      : Task{.shape = {3, 32, 32}};
}

// Calls `use` with the network, whatever type holds it.
template <class Use>
void with_network(const std::string& model, std::int64_t classes, Use use) {
  torch::manual_seed(0);
  if (model == "mlp") {
    use(models::mlp({.num_classes = classes}));
  } else if (model == "convnet") {
    use(models::convnet({.num_classes = classes}));
  } else if (model == "resnet18") {
    use(models::resnet18({.num_classes = classes}));
  } else if (model == "resnet50") {
    use(models::resnet50({.num_classes = classes}));
  } else {
    throw UsageError("there is no model '" + model +
                     "'; expected mlp, convnet, resnet18 or resnet50");
  }
}

void make_channels_last(torch::nn::Module& module) {
  for (auto& parameter : module.parameters()) {
    if (parameter.dim() == 4) {
      parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
}

// What autocast computes in, if it is on.
std::optional<c10::ScalarType> autocast_of(const std::string& precision) {
  return precision == "bf16"   ? std::optional(at::kBFloat16)
         : precision == "fp16" ? std::optional(at::kHalf)
                               : std::nullopt;
}

// As `with torch.autocast("cuda", type)`; nothing without a type.
class Autocast {
 public:
  explicit Autocast(std::optional<c10::ScalarType> type) : on_(type.has_value()) {
    if (on_) {
      at::autocast::set_autocast_dtype(at::kCUDA, *type);
      at::autocast::set_autocast_enabled(at::kCUDA, true);
    }
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast() {
    if (on_) {
      at::autocast::set_autocast_enabled(at::kCUDA, false);
      at::autocast::clear_cache();
    }
  }

 private:
  bool on_;
};

// Compresses from the third step on, as the peer.
CommHook hook_of(const std::string& variant, const Group& group) {
  return variant == "bf16"
             ? bf16_compress_hook(group)
             : power_sgd_hook(group, {.matrix_approximation_rank = 2, .start_power_sgd_iter = 2});
}

std::unique_ptr<optim::SGD> optimizer_for(const std::vector<at::Tensor>& params,
                                          const std::optional<Group>& shared_by) {
  const optim::SGDOptions options{.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4};
  if (shared_by) {
    return std::make_unique<optim::ZeroRedundancyOptimizer<optim::SGD>>(*shared_by, params,
                                                                        options);
  }
  return std::make_unique<optim::SGD>(params, options);
}

}  // namespace

Training::Training(const TrainingOptions& options, const std::optional<Group>& group)
    : autocast_(task_of(options).channels_last ? autocast_of(options.precision) : std::nullopt),
      scaler_({.init_scale = 1024, .enabled = autocast_ == at::kHalf}) {
  const Task task = task_of(options);
  at::globalContext().setAllowTF32CuBLAS(options.precision == "tf32");
  at::globalContext().setAllowTF32CuDNN(options.precision != "fp32");
  const at::Device device = options.cuda ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  at::globalContext().setBenchmarkCuDNN(true);
  with_network(options.model, task.classes, [&](auto network) {
    network->to(device);
    if (task.channels_last) {
      make_channels_last(*network);
    }
    if (options.spoiled) {
      const at::NoGradGuard no_grad;
      network->parameters().front().mul_(2);
    }
    make(options, group, network);
  });
  if (options.barrier_only) {
    barrier_ = group;
  }
  make_batch(options, group ? group->rank() : 0, device);
  if (options.graphed) {
    graphed_.emplace([this](const at::Tensor& images,
                            const at::Tensor& labels) { return train(images, labels); },
                     GraphedStepOptions{.device = device});
  }
}

void Training::make(const TrainingOptions& options, const std::optional<Group>& group,
                    auto network) {
  using Module = parallel::ModuleOf<decltype(network)>;
  const bool is_shared = options.variant == "zero";
  optimizer_ = optimizer_for(network->parameters(), is_shared ? group : std::nullopt);
  if (options.replicas > 1) {
    const std::vector devices(static_cast<std::size_t>(options.replicas),
                              network->parameters().front().device());
    const auto parallel =
        std::make_shared<DataParallel<Module>>(network, DataParallelOptions{.device_ids = devices});
    forward_ = [parallel](const at::Tensor& images) { return parallel->forward(images); };
  } else if (group && !options.barrier_only) {
    const auto ddp = std::make_shared<DistributedDataParallel<Module>>(
        network, *group, DistributedDataParallelOptions{.reduce_alone = options.reduce_alone});
    if (options.variant == "in_backward") {
      ddp->register_optimizer_in_backward(*optimizer_);
    } else if (!options.variant.empty() && !is_shared) {
      ddp->register_comm_hook(hook_of(options.variant, *group));
    }
    forward_ = [ddp](const at::Tensor& images) { return ddp->forward(images); };
    stats_ = [ddp] { return ddp->stats(); };
  } else {
    forward_ = [network](const at::Tensor& images) mutable { return network->forward(images); };
  }
}

// Replicas have the batches that as many ranks would have.
void Training::make_batch(const TrainingOptions& options, int first, at::Device device) {
  const Task task = task_of(options);
  std::vector<std::int64_t> sizes{options.batch_size};
  sizes.insert(sizes.end(), task.shape.begin(), task.shape.end());
  std::vector<at::Tensor> images;
  std::vector<at::Tensor> labels;
  for (int rank = first; rank < first + options.replicas; ++rank) {
    torch::manual_seed(static_cast<std::uint64_t>(1 + rank));
    images.push_back(at::randn(sizes).to(device));
    labels.push_back(at::randint(task.classes, {options.batch_size}, at::kLong).to(device));
  }
  images_ = at::cat(images);
  labels_ = at::cat(labels);
  if (task.channels_last) {
    images_ = images_.contiguous(at::MemoryFormat::ChannelsLast);
  }
  counted_ = options.batch_size;
}

at::Tensor Training::step() {
  if (!graphed_) {
    return train(images_, labels_);
  }
  // The batch stays in memory, so it stays where the graph reads it.
  const auto inputs = graphed_->inputs();
  auto loss = inputs.empty() ? (*graphed_)(images_, labels_) : (*graphed_)(inputs[0], inputs[1]);
  if (!graphed_->why_eager().empty()) {
    throw Error("the step cannot be recorded as a CUDA graph: " + graphed_->why_eager());
  }
  return loss;
}

at::Tensor Training::train(const at::Tensor& images, const at::Tensor& labels) {
  optimizer_->zero_grad();
  at::Tensor scores;
  at::Tensor loss;
  {
    const Autocast autocast(autocast_);
    scores = forward_(images);
    loss = torch::nn::functional::cross_entropy(scores, labels);
  }
  scaler_.scale(loss).backward();
  if (!optimizer_->steps_in_backward()) {
    scaler_.step(*optimizer_);
    scaler_.update();
  }
  if (barrier_) {
    barrier_->barrier();
  }
  if (counted_ == labels.size(0)) {
    return loss;
  }
  return torch::nn::functional::cross_entropy(scores.detach().slice(0, 0, counted_),
                                              labels.slice(0, 0, counted_));
}

void Training::hold_weights() { optimizer_->set_lr(0); }

std::size_t Training::optimizer_bytes() const {
  std::size_t bytes = 0;
  // What this rank keeps, of a ZeroRedundancyOptimizer too.
  for (const auto& [number, tensors] : optimizer_->Optimizer::state_dict().state) {
    for (const auto& [name, tensor] : tensors) {
      bytes += tensor.nbytes();
    }
  }
  return bytes;
}

std::optional<DistributedDataParallelStats> Training::stats() const {
  return stats_ ? std::optional(stats_()) : std::nullopt;
}

}  // namespace lockstep::bench
