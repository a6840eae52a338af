// Data-parallel training of any torch::nn module, with PyTorch's numbers.
//
//   auto world = lockstep::init_process_group();
//   torch::nn::Sequential net(torch::nn::Linear(784, 10));
//   lockstep::DistributedDataParallel ddp(net, world);
//   torch::optim::SGD optimizer(ddp.parameters(), torch::optim::SGDOptions(0.1));
//
//   auto loss = torch::nn::functional::cross_entropy(ddp(images), labels);
//   loss.backward();  // Gradients are averaged over the ranks while this runs.
//   optimizer.step();
#pragma once

#include <torch/nn/module.h>

#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "lockstep/parallel/autograd/tensor_visitor.h"
#include "lockstep/parallel/held_module.h"
#include "lockstep/parallel/module_state.h"
#include "lockstep/parallel/replica.h"

namespace lockstep {

// Wrapping a module is a collective of all ranks of the group, as are forward and backward. One
// thread at a time may use it. Parameters may not be added, moved or exchanged afterwards: forward
// throws UsageError for one that would not be averaged.
template <class Module>
class DistributedDataParallel {
 public:
  template <class Held>
  DistributedDataParallel(Held&& module, const Group& group,
                          const DistributedDataParallelOptions& options = {})
      : module_(parallel::not_null(parallel::pointer_to(module), "DistributedDataParallel")),
        replica_(std::make_unique<parallel::Replica>(*module_, group, options)) {
    static_assert(
        !std::is_base_of_v<torch::nn::Module, std::remove_cvref_t<Held>> ||
            std::is_lvalue_reference_v<Held>,
        "a module that is handed over by itself must outlive this; give a shared pointer");
  }

  // The module's own forward, whatever it takes; what it returns may be anything that
  // tensor_visitor.h knows or was told of.
  template <class... Arguments>
  auto forward(Arguments&&... arguments) {
    if (replica_->counts_samples() && !replica_->knows_samples()) {
      (count_rows(arguments), ...);
    }
    replica_->before_forward();
    auto output = call(std::forward<Arguments>(arguments)...);
    std::vector<at::Tensor*> tensors;
    parallel::visit(output, [&](at::Tensor& tensor) { tensors.push_back(&tensor); });
    if (const auto device = replica_->output_device()) {
      for (at::Tensor* tensor : tensors) {
        if (tensor->defined()) {
          *tensor = tensor->to(*device);
        }
      }
    }
    replica_->after_forward(tensors);
    return output;
  }
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  // While the result lives, forwards do not communicate, and the gradients of their backwards
  // accumulate on this rank. The first synchronized backward after it averages their sum.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(std::shared_ptr<bool> synchronizing)
        : synchronizing_(std::move(synchronizing)),
          before_(std::exchange(*synchronizing_, false)) {}
    NoSync(NoSync&&) noexcept = default;
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync() {
      if (synchronizing_) {
        *synchronizing_ = before_;
      }
    }

   private:
    std::shared_ptr<bool> synchronizing_;
    bool before_;
  };
  NoSync no_sync() { return NoSync(replica_->synchronizing()); }

  // With mean_over_samples: how many samples the next forward's loss is the mean of, where that is
  // not the first dimension of forward's first tensor.
  void set_samples(double samples) { replica_->set_samples(samples); }

  // For ranks with different numbers of inputs: a rank whose `body`, the training loop, has
  // returned takes part in the steps of the others with zeros. When all have returned, all have the
  // model of a rank that made the most steps. Forwards without gradients belong outside. What
  // `body` throws comes out, and the errors of the others tell it. Throws UsageError with
  // static_graph, mean_over_samples, sparse gradients or check_replicas_every, and for a module
  // with batch normalization over the ranks unless all stop with the first that has no inputs.
  template <class Body>
  void join(Body&& body, const JoinOptions& options = {}) {
    struct End {
      parallel::Replica& replica;
      ~End() { replica.end_join(); }
    };
    replica_->begin_join(options);
    const End end{*replica_};
    try {
      std::forward<Body>(body)();
    } catch (const PeerError&) {  // The others know.
      throw;
    } catch (const std::exception& error) {
      replica_->fail(error.what());
      throw;
    } catch (...) {
      replica_->fail("an exception that is no std::exception");
      throw;
    }
    replica_->shadow_others();
  }

  // What the hook makes of each bucket of gradients becomes the gradients, instead of their
  // average: hooks/default_hooks.h, or a function of one's own. All ranks register the same one,
  // once, before the first forward; else it throws UsageError. It runs in a group of one rank, too.
  void register_comm_hook(CommHook hook) { replica_->register_comm_hook(std::move(hook)); }

  // From now on backward makes the optimizer's steps, with the bits that step() would have: at its
  // end, for each bucket as soon as its gradients are averaged, while later buckets are still being
  // summed. Nobody calls step(), which throws UsageError. Under no_sync() no step is made.
  // Parameters that are in no bucket are stepped last. The optimizer must outlive this. Throws
  // UsageError for a second one, with delayed parameters, and for optimizers whose step cannot be
  // made in parts (ZeroRedundancyOptimizer).
  template <class Optimizer>
  void register_optimizer_in_backward(Optimizer& optimizer) {
    static_assert(
        requires(const std::vector<at::Tensor>& parameters) {
          optimizer.begin_steps_in_backward();
          optimizer.step_in_backward(parameters);
        },
        "register_optimizer_in_backward takes an optimizer of lockstep::optim: those of "
        "torch::optim step all parameters at once");
    std::vector<at::Tensor> parameters;
    for (std::size_t group = 0; group < optimizer.groups(); ++group) {
      const auto& own = optimizer.params(group);
      parameters.insert(parameters.end(), own.begin(), own.end());
    }
    optimizer.begin_steps_in_backward();
    try {
      replica_->register_optimizer_in_backward(
          {std::move(parameters), [&optimizer](const std::vector<at::Tensor>& some) {
             optimizer.step_in_backward(some);
           }});
    } catch (...) {
      optimizer.end_steps_in_backward();
      throw;
    }
  }

  [[nodiscard]] DistributedDataParallelStats stats() const { return replica_->stats(); }

  // For a rank that found by itself that it cannot go on, before it ends: the errors of the others
  // say why.
  void report_failure(const std::string& reason) noexcept { replica_->fail(reason); }

  [[nodiscard]] const Group& group() const { return replica_->group(); }
  [[nodiscard]] const std::shared_ptr<Module>& module() const { return module_; }
  Module* operator->() const { return module_.get(); }

  void train(bool on = true) { module_->train(on); }
  void eval() { module_->eval(); }
  [[nodiscard]] bool is_training() const { return module_->is_training(); }
  void zero_grad(bool set_to_none = true) { module_->zero_grad(set_to_none); }
  // Each parameter once, as in Python, however many modules share it.
  [[nodiscard]] std::vector<at::Tensor> parameters() const {
    return parallel::each_once(module_->parameters());
  }
  [[nodiscard]] auto named_parameters() const { return module_->named_parameters(); }
  [[nodiscard]] std::vector<at::Tensor> buffers() const {
    return parallel::each_once(module_->buffers());
  }
  [[nodiscard]] auto named_buffers() const { return module_->named_buffers(); }
  [[nodiscard]] auto named_modules() const { return module_->named_modules(); }
  // With "module." before each name, as in Python. load_state_dict(ddp, state) takes it.
  [[nodiscard]] parallel::NamedTensors state_dict() const {
    auto state = parallel::state_dict(*module_);
    for (auto& item : state) {
      item.first.insert(0, "module.");
    }
    return state;
  }

 private:
  template <class Argument>
  void count_rows(const Argument& argument) {
    if constexpr (std::is_same_v<Argument, at::Tensor>) {
      if (!replica_->knows_samples() && argument.defined() && argument.dim() > 0) {
        replica_->set_samples(static_cast<double>(argument.size(0)));
      }
    }
  }

  template <class... Arguments>
  auto call(Arguments&&... arguments) {
    try {
      if (const auto device = replica_->input_device()) {
        return module_->forward(
            Moved<Arguments>(std::forward<Arguments>(arguments), *device).get()...);
      }
      return module_->forward(std::forward<Arguments>(arguments)...);
    } catch (const std::exception& error) {
      replica_->fail(error.what());
      throw;
    } catch (...) {
      replica_->fail("an exception that is no std::exception");
      throw;
    }
  }

  // A copy of an argument with its tensors on the device. An argument without tensors is passed on
  // as it is.
  template <class Argument>
  class Moved {
   public:
    Moved(Argument&& argument, at::Device device) : value_(std::forward<Argument>(argument)) {
      if constexpr (kCopied) {
        parallel::visit(value_, [&](at::Tensor& tensor) {
          tensor = tensor.defined() ? tensor.to(device) : tensor;
        });
      }
    }
    Argument&& get() { return static_cast<Argument&&>(value_); }

   private:
    using Value = std::remove_cvref_t<Argument>;
    static constexpr bool kCopied =
        parallel::is_visitable<Value>() && !parallel::WithoutTensors<Value>;
    std::conditional_t<kCopied, Value, Argument&&> value_;
  };

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
