#include "lockstep/parallel/nn/sync_batch_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/container/sequential.h>

#include <optional>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

class GroupExchange : public nn::RankExchange {
 public:
  explicit GroupExchange(const Group& group) : group_(group) {}

  int size() const override { return group_.size(); }
  int rank() const override { return group_.rank(); }
  at::Tensor gather(const at::Tensor& own) const override {
    const auto all = at::empty({group_.size(), own.numel()}, own.options());
    group_.all_gather(all.unbind(0), own).wait();
    return all;
  }
  void sum(const at::Tensor& tensor) const override { group_.all_reduce(tensor).wait(); }

 private:
  Group group_;
};

nn::RankExchangePointer exchange_of(const Group& group) {
  if (!group.is_member()) {
    throw UsageError("SyncBatchNorm: this process is no member of the group");
  }
  return c10::make_intrusive<GroupExchange>(group);
}

// What torch::nn's three layers have in common, without a common type.
struct TorchLayer {
  torch::nn::BatchNormOptions options{0};
  nn::BatchNormTensors tensors;
};

template <class Layer>
bool describe(const torch::nn::Module& module, TorchLayer& found) {
  const auto* layer = module.as<Layer>();
  if (layer == nullptr) {
    return false;
  }
  found = {.options = layer->options,
           .tensors = {.weight = layer->weight,
                       .bias = layer->bias,
                       .running_mean = layer->running_mean,
                       .running_var = layer->running_var,
                       .num_batches_tracked = layer->num_batches_tracked}};
  return true;
}

bool is_torch_layer(const torch::nn::Module& module, TorchLayer& found) {
  return describe<torch::nn::BatchNorm1dImpl>(module, found) ||
         describe<torch::nn::BatchNorm2dImpl>(module, found) ||
         describe<torch::nn::BatchNorm3dImpl>(module, found);
}

void require_replaceable(const torch::nn::Module& parent, const std::string& prefix) {
  TorchLayer layer;
  const bool sequential = parent.as<torch::nn::SequentialImpl>() != nullptr;
  for (const auto& child : parent.named_children()) {
    const auto name = prefix + child.key();
    if (is_torch_layer(*child.value(), layer) && !sequential) {
      throw UsageError("convert_sync_batchnorm: '" + name + "' (" + child.value()->name() +
                       ") is held by " + parent.name() +
                       ", which would go on using it; declare it as lockstep::nn::BatchNorm2d (or "
                       "1d, 3d), or put it into a torch::nn::Sequential");
    }
    require_replaceable(*child.value(), name + ".");
  }
}

std::size_t convert_children(torch::nn::Module& parent, const Group& group) {
  std::size_t found = 0;
  auto* const sequential = parent.as<torch::nn::SequentialImpl>();
  std::size_t position = 0;
  TorchLayer layer;
  for (const auto& child : parent.named_children()) {
    if (auto* const own = dynamic_cast<nn::Synchronizable*>(child.value().get())) {
      own->synchronize(exchange_of(group));
      ++found;
    } else if (is_torch_layer(*child.value(), layer)) {
      // The same tensors, so that an optimizer that knows them goes on.
      SyncBatchNorm made(layer.options, group, layer.tensors);
      made->train(child.value()->is_training());
      parent.replace_module(child.key(), made);
      *(sequential->begin() + static_cast<std::ptrdiff_t>(position)) =
          torch::nn::AnyModule(made.ptr());
      ++found;
    } else {
      found += convert_children(*child.value(), group);
    }
    ++position;
  }
  return found;
}

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const SyncBatchNormOptions& the_options, const Group& group)
    : options(the_options) {
  synchronize(exchange_of(group));
  SyncBatchNormImpl::reset();
}

SyncBatchNormImpl::SyncBatchNormImpl(const SyncBatchNormOptions& the_options, const Group& group,
                                     const nn::BatchNormTensors& shared)
    : options(the_options), tensors(shared) {
  synchronize(exchange_of(group));
  register_tensors();
}

void SyncBatchNormImpl::reset() {
  const auto features = options.num_features();
  tensors = {};
  if (options.affine()) {
    tensors.weight = at::ones({features}).set_requires_grad(true);
    tensors.bias = at::zeros({features}).set_requires_grad(true);
  }
  if (options.track_running_stats()) {
    tensors.running_mean = at::zeros({features});
    tensors.running_var = at::ones({features});
    tensors.num_batches_tracked = at::zeros({}, at::kLong);
  }
  register_tensors();
}

void SyncBatchNormImpl::register_tensors() {
  for (const auto& [name, tensor] :
       {std::pair("weight", &tensors.weight), {"bias", &tensors.bias}}) {
    *tensor = register_parameter(name, *tensor, tensor->defined() && tensor->requires_grad());
  }
  register_buffer("running_mean", tensors.running_mean);
  register_buffer("running_var", tensors.running_var);
  register_buffer("num_batches_tracked", tensors.num_batches_tracked);
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& input) {
  require_dimensions(input, 2, std::nullopt, "SyncBatchNorm");
  if (is_training()) {
    return nn::normalize_in_training(input, tensors, options, ranks());
  }
  if (ranks()) {
    nn::require_input_of(tensors, input, *ranks());
  }
  return torch::nn::functional::detail::batch_norm(
      input, tensors.running_mean, tensors.running_var, tensors.weight, tensors.bias,
      /*training=*/!options.track_running_stats(), /*momentum=*/0, options.eps());
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "lockstep::SyncBatchNorm(" << options.num_features() << ", eps=" << options.eps()
         << ", ranks=" << (ranks() ? ranks()->size() : 1) << ")";
}

std::size_t convert_sync_batchnorm(torch::nn::Module& module, const Group& group) {
  TorchLayer layer;
  if (is_torch_layer(module, layer)) {
    throw UsageError("convert_sync_batchnorm: the module is a " + module.name() +
                     " itself, expected one that holds such layers; make a SyncBatchNorm");
  }
  if (auto* const own = dynamic_cast<nn::Synchronizable*>(&module)) {
    own->synchronize(exchange_of(group));
    return 1;
  }
  require_replaceable(module, "");
  return convert_children(module, group);
}

}  // namespace lockstep
