// A training step that is recorded once and then replayed as one CUDA graph.
//
//   lockstep::GraphedStep step([&](const at::Tensor& images, const at::Tensor& labels) {
//     optimizer.zero_grad();
//     auto loss = torch::nn::functional::cross_entropy(ddp(images), labels);
//     loss.backward();
//     optimizer.step();
//     return loss;
//   });
//   for (auto& batch : loader) {
//     const auto loss = step(batch.data, batch.target);
//   }
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/device/graph.h"

namespace lockstep {

struct GraphedStepOptions {
  // Where the step runs; inputs are copied there. On the CPU every call runs eagerly. Without an
  // index it is the current GPU, which is GPU 0 unless the program chose another: give
  // world.device() where several ranks share a host.
  at::Device device{at::kCUDA};
  // Calls that run eagerly before one is recorded, with inputs of the same shapes: libraries choose
  // their algorithms in them, and DistributedDataParallel its buckets.
  int warmup = 3;
  bool record = true;  // False: every call runs eagerly.
  // Runs before a recording, which waits for the GPU without a time limit: Group::synchronize(),
  // say.
  std::function<void()> before_recording = nullptr;
};

namespace device {

// What GraphedStep does, whatever the types of its function.
class StepRecorder {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Work = std::function<void(const Tensors& inputs)>;
  enum class Run { kEager, kRecorded, kReplayed };

  // Throws UsageError if there is no such device, or the number of calls is negative.
  explicit StepRecorder(const GraphedStepOptions& options);

  // kEager: `work` ran. kRecorded: it was recorded, then replayed; kReplayed: what was recorded
  // ran.
  Run run(const Tensors& inputs, const Work& work);

  // The number of the call of `work` that the calling thread is in, eager or recorded; 0 outside of
  // one. A replay calls nothing.
  static std::uint64_t call_number();

  void record_again();
  [[nodiscard]] const Tensors& inputs() const { return inputs_; }
  [[nodiscard]] const std::string& why_eager() const { return why_eager_; }
  [[nodiscard]] bool is_recorded() const { return graph_ != nullptr; }

 private:
  [[nodiscard]] Tensors on_device(const Tensors& inputs) const;
  static void call(const Work& work, const Tensors& inputs);
  void note_shapes(const Tensors& inputs);
  bool record(const Tensors& inputs, const Work& work);
  void replay(const Tensors& inputs);

  GraphedStepOptions options_;
  std::optional<c10::Stream> stream_;  // For eager calls and the recording; none on the CPU.
  std::string why_eager_;
  Tensors like_;         // The inputs of the last eager call; their contents do not matter.
  int calls_alike_ = 0;  // Eager ones in a row with inputs of those shapes.
  Tensors inputs_;
  std::unique_ptr<Graph> graph_;
};

template <class Result>
concept StepResult =
    std::same_as<Result, at::Tensor> || std::same_as<Result, std::vector<at::Tensor>>;

inline at::Tensor detached(const at::Tensor& tensor) { return tensor.detach(); }
inline std::vector<at::Tensor> detached(std::vector<at::Tensor> tensors) {
  for (auto& tensor : tensors) {
    tensor = tensor.detach();
  }
  return tensors;
}

}  // namespace device

// The function takes tensors, and returns a tensor or a vector of them. What it gives to the GPU
// must be the same in every call, the inputs' contents apart: its host code runs in the first calls
// and while it is recorded, and not in replays. So
// - gradients are zeroed (or set to none), used and read inside of it;
// - numbers of the host are those of the recording: after changing a learning rate, call
//   record_again(), or let the optimizer read it from a tensor on the GPU, as those of
//   lockstep::optim do. An optimizer that counts steps on the host, as torch::optim::Adam does,
//   must not be recorded;
// - it may not wait for the GPU (item(), cpu(), synchronize()).
// A function that cannot be recorded runs eagerly, with one warning that says why, as does a call
// with inputs of other shapes. All that it uses must outlive this. One thread at a time may use it;
// work is ordered on the stream that is current when it is called.
template <class Function>
class GraphedStep {
 public:
  explicit GraphedStep(Function function, const GraphedStepOptions& options = {})
      : function_(std::move(function)), recorder_(options) {}

  // The result of a replay belongs to the graph: the next call overwrites it, so clone() what you
  // keep.
  template <std::convertible_to<const at::Tensor&>... Inputs>
  auto operator()(const Inputs&... inputs) {
    using Result =
        std::invoke_result_t<Function&, decltype(static_cast<const at::Tensor&>(inputs))...>;
    static_assert(device::StepResult<Result>,
                  "the function must return at::Tensor or a vector of them");
    std::optional<Result> result;
    const auto run = recorder_.run({inputs...}, [&](const std::vector<at::Tensor>& given) {
      result = call(given, std::index_sequence_for<Inputs...>());
    });
    if (run == device::StepRecorder::Run::kEager) {
      return *std::move(result);
    }
    if (run == device::StepRecorder::Run::kRecorded) {
      // Without its history, which would keep the streams of the recording.
      const auto recorded = std::make_shared<Result>(device::detached(*std::move(result)));
      recorded_ = recorded;
    }
    return *std::static_pointer_cast<Result>(recorded_);
  }

  // The next call records anew: numbers of the host may have changed. Before the first recording it
  // does nothing.
  void record_again() { recorder_.record_again(); }

  [[nodiscard]] bool is_recorded() const { return recorder_.is_recorded(); }
  // Why calls are not recorded; empty if they are or will be.
  [[nodiscard]] const std::string& why_eager() const { return recorder_.why_eager(); }
  // What replays read; empty before. A loader may fill them itself and call with them: nothing is
  // copied then.
  [[nodiscard]] const std::vector<at::Tensor>& inputs() const { return recorder_.inputs(); }

 private:
  template <std::size_t... I>
  auto call(const std::vector<at::Tensor>& given, std::index_sequence<I...> /*indices*/) {
    return function_(given[I]...);
  }

  Function function_;
  std::shared_ptr<void>
      recorded_;  // The result; the function's type is known, its result's is not.
  device::StepRecorder recorder_;
};

}  // namespace lockstep
