// Data-parallel training of any torch::nn module, with PyTorch's numbers.
//
//   auto world = lockstep::init_process_group();
//   torch::nn::Sequential net(torch::nn::Linear(784, 10));
//   lockstep::DistributedDataParallel ddp(net, world);
//   auto loss = torch::nn::functional::cross_entropy(ddp(images), labels);
//   loss.backward();                       // Gradients are averaged over the ranks while this
//   runs. optimizer.step();                      // Made of ddp.parameters(), or the module's own.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/module_state.h"
#include "lockstep/parallel/replica.h"
#include "lockstep/parallel/tensor_visitor.h"

namespace lockstep {
namespace parallel {

// What a module is held by: a torch::nn holder, a shared pointer, or the module itself, which then
// must outlive what is made of it.
template <class Module>
std::shared_ptr<Module> pointer_to(const std::shared_ptr<Module>& module) {
  return module;
}
template <class Holder>
  requires requires(const Holder& holder) { holder.ptr(); }
auto pointer_to(const Holder& holder) {
  return holder.ptr();
}
template <class Module>
  requires std::is_base_of_v<torch::nn::Module, Module>
std::shared_ptr<Module> pointer_to(Module& module) {
  return {std::shared_ptr<void>(), &module};
}

template <class Held>
using ModuleOf = typename decltype(pointer_to(std::declval<Held&>()))::element_type;

}  // namespace parallel

// Wrapping a module is a collective of all ranks of the group, as are forward and backward. One
// thread at a time may use it. Changing which parameters the module has afterwards is not noticed.
template <class Module>
class DistributedDataParallel {
 public:
  template <class Held>
  DistributedDataParallel(Held&& module, const Group& group,
                          const DistributedDataParallelOptions& options = {})
      : module_(parallel::pointer_to(module)),
        replica_(std::make_unique<parallel::Replica>(*module_, group, options)) {}

  // The module's own forward, whatever it takes; what it returns may be anything that
  // tensor_visitor.h knows or was told of.
  template <class... Arguments>
  auto forward(Arguments&&... arguments) {
    replica_->before_forward();
    auto output = module_->forward(on_device(std::forward<Arguments>(arguments))...);
    std::vector<at::Tensor*> tensors;
    parallel::visit(output, [&](at::Tensor& tensor) { tensors.push_back(&tensor); });
    if (const auto device = replica_->output_device()) {
      for (at::Tensor* tensor : tensors) {
        *tensor = tensor->to(*device);
      }
    }
    replica_->after_forward(tensors);
    return output;
  }
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  // While the result lives, forwards and their backwards communicate nothing and gradients are
  // accumulated on this rank; the first synchronized backward after it averages their sum.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(parallel::Replica& replica)
        : replica_(&replica), before_(replica.synchronize(false)) {}
    NoSync(NoSync&& other) noexcept
        : replica_(std::exchange(other.replica_, nullptr)), before_(other.before_) {}
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync() {
      if (replica_ != nullptr) {
        replica_->synchronize(before_);
      }
    }

   private:
    parallel::Replica* replica_;
    bool before_;
  };
  NoSync no_sync() { return NoSync(*replica_); }

  [[nodiscard]] DistributedDataParallelStats stats() const { return replica_->stats(); }

  [[nodiscard]] const std::shared_ptr<Module>& module() const { return module_; }
  Module* operator->() const { return module_.get(); }

  void train(bool on = true) { module_->train(on); }
  void eval() { module_->eval(); }
  [[nodiscard]] bool is_training() const { return module_->is_training(); }
  void zero_grad(bool set_to_none = true) { module_->zero_grad(set_to_none); }
  // Each once, as in Python, however many modules share it.
  [[nodiscard]] std::vector<at::Tensor> parameters() const {
    return parallel::each_once(module_->parameters());
  }
  [[nodiscard]] auto named_parameters() const { return module_->named_parameters(); }
  [[nodiscard]] std::vector<at::Tensor> buffers() const {
    return parallel::each_once(module_->buffers());
  }
  [[nodiscard]] auto named_buffers() const { return module_->named_buffers(); }
  [[nodiscard]] auto named_modules() const { return module_->named_modules(); }

 private:
  // Arguments go through as they are unless the module has a device of its own for them.
  template <class Argument>
  decltype(auto) on_device(Argument&& argument) const {
    using Value = std::remove_cvref_t<Argument>;
    if constexpr (parallel::Visitable<Value> && !parallel::WithoutTensors<Value>) {
      Value value(std::forward<Argument>(argument));
      if (const auto device = replica_->input_device()) {
        parallel::visit(value, [&](at::Tensor& tensor) { tensor = tensor.to(*device); });
      }
      return value;
    } else {
      return std::forward<Argument>(argument);
    }
  }

  std::shared_ptr<Module> module_;
  std::unique_ptr<parallel::Replica> replica_;  // After the module, which it refers to.
};

template <class Held>
DistributedDataParallel(Held&&, const Group&)
    -> DistributedDataParallel<parallel::ModuleOf<std::remove_cvref_t<Held>>>;
template <class Held>
DistributedDataParallel(Held&&, const Group&, const DistributedDataParallelOptions&)
    -> DistributedDataParallel<parallel::ModuleOf<std::remove_cvref_t<Held>>>;

}  // namespace lockstep
