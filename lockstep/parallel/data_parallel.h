// One process trains a module on several devices: torch.nn.DataParallel.
//
//   torch::nn::Sequential net(torch::nn::Linear(784, 10));
//   lockstep::DataParallel parallel(net, {.device_ids = {{at::kCUDA, 0}, {at::kCUDA, 1}}});
//   auto loss = torch::nn::functional::cross_entropy(parallel(images), labels);
//   loss.backward();
//   optimizer.step();  // It has net->parameters().
//
// Each forward copies the module to the devices, deals the batch out to them and collects the
// outputs on one. DistributedDataParallel does none of that and is faster; see
// docs/guides/data-parallel.md.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/parallel/autograd/tensor_visitor.h"
#include "lockstep/parallel/data_parallel/replicas.h"
#include "lockstep/parallel/held_module.h"

namespace lockstep {

struct DataParallelOptions {
  // One device may be named several times: {at::kCPU, at::kCPU} are two replicas on the CPU. Empty
  // means all GPUs, or the module's own device where there are none.
  std::vector<at::Device> device_ids;
  std::optional<at::Device> output_device;  // The first device if there is none.
  std::int64_t dim = 0;                     // Along which batches are dealt out.
};

// Seconds of the last forward. On GPUs: of starting the work there.
struct DataParallelTimes {
  double replicate = 0;
  double scatter = 0;
  double forward = 0;
  double gather = 0;
};

namespace parallel {

// Throws UsageError if there are devices of two kinds, or a GPU without a number.
std::vector<at::Device> devices_for(const torch::nn::Module& module,
                                    const DataParallelOptions& options);

class Stopwatch {
 public:
  // Since the last call, or since it was made.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace parallel

// As in Python, the replica on the first device is the module itself: buffers that a forward
// changes, such as running statistics, are those of its part of the batch. Clones are made here, so
// hooks or members that the module gets later are not theirs. Replicas on one device run at the
// same time and draw from its one generator, also as in Python: dropout differs from run to run
// there, and utils::checkpoint draws other numbers when it computes again. One thread at a time may
// use it.
template <class Module>
class DataParallel {
 public:
  template <class Held>
    requires(!std::is_same_v<std::remove_cvref_t<Held>, DataParallel>)
  explicit DataParallel(Held&& module, const DataParallelOptions& options = {})
      : module_(parallel::not_null(parallel::pointer_to(module), "DataParallel")),
        replicas_(module_, parallel::devices_for(*module_, options)),
        output_device_(options.output_device.value_or(replicas_.devices().front())),
        dim_(options.dim) {
    static_assert(
        !std::is_base_of_v<torch::nn::Module, std::remove_cvref_t<Held>> ||
            std::is_lvalue_reference_v<Held>,
        "a module that is handed over by itself must outlive this; give a shared pointer");
  }

  // Arguments and output may be anything that tensor_visitor.h knows or was told of. Tensors in the
  // arguments are dealt out, all else is copied; tensors in the output are collected, all else is
  // the first replica's. Scalars of several devices are collected as a vector, with a warning. A
  // batch of fewer rows than devices is for the first ones. With one device the output is the
  // module's own, wherever it is.
  template <class... Arguments>
  auto forward(const Arguments&... arguments) {
    using Inputs = std::tuple<Arguments...>;
    using Output = decltype(module_->forward(std::declval<Arguments&>()...));
    parallel::Stopwatch watch;
    auto inputs = scattered(Inputs(arguments...));
    times_.scatter = watch.lap();
    replicas_.replicate(inputs.size());
    times_.replicate = watch.lap();
    std::vector<std::optional<Output>> outputs(inputs.size());
    parallel::parallel_apply(inputs.size(), replicas_.devices(), [&](std::size_t i) {
      auto& replica = dynamic_cast<Module&>(replicas_[i]);
      outputs[i] = std::apply([&](auto&... own) { return replica.forward(own...); }, inputs[i]);
    });
    times_.forward = watch.lap();
    if (device_ids().size() > 1) {
      collect(outputs);
    }
    times_.gather = watch.lap();
    return std::move(*outputs.front());
  }
  template <class... Arguments>
  auto operator()(const Arguments&... arguments) {
    return forward(arguments...);
  }

  [[nodiscard]] const std::shared_ptr<Module>& module() const { return module_; }
  Module* operator->() const { return module_.get(); }
  [[nodiscard]] const std::vector<at::Device>& device_ids() const { return replicas_.devices(); }
  [[nodiscard]] const DataParallelTimes& times() const { return times_; }

 private:
  template <class Value>
  static std::vector<at::Tensor*> tensors_in(Value& value) {
    std::vector<at::Tensor*> tensors;
    parallel::visit(value, [&](at::Tensor& tensor) { tensors.push_back(&tensor); });
    return tensors;
  }

  // What each replica gets, for as many as have something to do.
  template <class Inputs>
  std::vector<Inputs> scattered(Inputs whole) {
    std::vector<std::vector<at::Tensor>> pieces;
    std::optional<std::size_t> count;
    for (const at::Tensor* tensor : tensors_in(whole)) {
      pieces.push_back(parallel::scatter(*tensor, replicas_.devices(), dim_));
      if (!tensor->defined() || tensor->dim() == 0) {
        continue;
      }
      if (count && *count != pieces.back().size()) {
        throw UsageError("DataParallel: the arguments have pieces for " + std::to_string(*count) +
                         " and for " + std::to_string(pieces.back().size()) +
                         " devices, expected tensors with equally many rows in dimension " +
                         std::to_string(dim_));
      }
      count = pieces.back().size();
    }
    std::vector<Inputs> inputs(count.value_or(1), whole);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto tensors = tensors_in(inputs[i]);
      for (std::size_t k = 0; k < tensors.size(); ++k) {
        *tensors[k] = pieces[k][i];
      }
    }
    return inputs;
  }

  // Into the first output.
  template <class Output>
  void collect(std::vector<std::optional<Output>>& outputs) {
    const auto first = tensors_in(*outputs.front());
    std::vector<std::vector<at::Tensor>> pieces(first.size());
    for (auto& output : outputs) {
      const auto tensors = tensors_in(*output);
      if (tensors.size() != first.size()) {
        throw UsageError("DataParallel: one replica returns " + std::to_string(first.size()) +
                         " tensors and another " + std::to_string(tensors.size()) +
                         ", expected equally many");
      }
      for (std::size_t k = 0; k < tensors.size(); ++k) {
        pieces[k].push_back(*tensors[k]);
      }
    }
    for (std::size_t k = 0; k < first.size(); ++k) {
      *first[k] = parallel::gather(pieces[k], output_device_, dim_);
    }
  }

  std::shared_ptr<Module> module_;
  parallel::Replicas replicas_;
  at::Device output_device_;
  std::int64_t dim_;
  DataParallelTimes times_;
};

template <class Held>
explicit DataParallel(Held&&) -> DataParallel<parallel::ModuleOf<std::remove_cvref_t<Held>>>;
template <class Held>
DataParallel(Held&&, const DataParallelOptions&)
    -> DataParallel<parallel::ModuleOf<std::remove_cvref_t<Held>>>;

}  // namespace lockstep
