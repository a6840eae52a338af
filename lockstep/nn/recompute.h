// A part of a network that is computed again in backward, so that what it makes in between need not
// be kept: torch.utils.checkpoint, with use_reentrant=True.
//
//   const auto y = lockstep::utils::checkpoint([&](const at::Tensor& x) { return block(x); }, x);
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::utils {

using Tensors = std::vector<at::Tensor>;

struct CheckpointOptions {
  // Random numbers are the same when the function runs again. Costs a copy of their state. Not if
  // another thread draws from the same device's generator meanwhile, as replicas of DataParallel on
  // one device do.
  bool preserve_rng_state = true;
};

// Calls the function with the inputs, without a graph, and again in backward: with the same inputs,
// autocast and random numbers, on which alone its result may depend. The function and what it
// refers to must live until backward. Gradients reach inputs and whatever else the function uses,
// even if no input requires one. Under DistributedDataParallel a parameter may be used in one
// checkpoint once; set static_graph if it is used in several. torch::autograd::grad() through it
// throws UsageError: the gradients of parameters would be added to them. Undefined tensors pass
// through, in and out, as None does in Python. Without gradients it just calls the function.
Tensors checkpoint(std::function<Tensors(const Tensors&)> function, const Tensors& inputs,
                   const CheckpointOptions& options = {});

// For a function of tensors that returns one.
template <class Function, class... Inputs>
  requires(sizeof...(Inputs) > 0 &&
           (std::is_same_v<std::remove_cvref_t<Inputs>, at::Tensor> && ...))
at::Tensor checkpoint(Function function, Inputs&&... inputs) {
  return checkpoint(
             [function = std::move(function)](const Tensors& list) mutable -> Tensors {
               return [&]<std::size_t... i>(std::index_sequence<i...>) {
                 return Tensors{function(list[i]...)};
               }(std::index_sequence_for<Inputs...>());
             },
             Tensors{inputs...})
      .front();
}

}  // namespace lockstep::utils
