// The ranks that work together: what a program holds instead of a global process group.
//
// Made by init_process_group() and new_group(). Collectives must be called by all
// ranks of a group in the same order; they return at once and are awaited by Work::wait().
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/progress.h"
#include "lockstep/comm/capability.h"
#include "lockstep/comm/work.h"

namespace c10d {
class Backend;
class ProcessGroup;
class Store;
}  // namespace c10d

namespace lockstep {

enum class ReduceOp { kSum, kAvg, kProduct, kMin, kMax, kBand, kBor, kBxor };

struct CollectiveOptions {
  std::optional<std::chrono::milliseconds> timeout;  // Not given: the group's.
};

struct ReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  std::optional<std::chrono::milliseconds> timeout;
};

struct PointToPointOptions {
  int tag = 0;
  std::optional<std::chrono::milliseconds> timeout;
};

// A handle: copies refer to the same group, which ends with the last of them or
// with destroy(). One thread at a time may start collectives on a group; different
// groups are independent.
class Group {
 public:
  [[nodiscard]] int rank() const;  // -1 if this process is no member.
  [[nodiscard]] int size() const;
  [[nodiscard]] bool is_member() const { return rank() >= 0; }
  // False for a process that is alone and has no process group at all.
  [[nodiscard]] bool is_distributed() const;

  // The local rank and size of this process, whatever the group. If the environment does not tell
  // them, they follow from the ranks that share this host; that waits until all ranks have started.
  [[nodiscard]] int local_rank() const;
  [[nodiscard]] int local_size() const;
  [[nodiscard]] int node_rank() const;

  // cuda:local_rank where LibTorch sees GPUs and the group has a backend for them, else the CPU. A
  // rank that sees fewer takes the first that no rank before it on its host has, since a scheduler
  // may show each rank only its own; that waits until those ranks have started. Throws UsageError
  // if none is left.
  [[nodiscard]] at::Device device() const;
  // Where what is no training data travels: the CPU if the group has a backend for it, else
  // device().
  [[nodiscard]] at::Device object_device() const;
  // The machine-wide numbers of the GPUs that this process may use, in CUDA's order.
  [[nodiscard]] std::vector<int> gpu_ids() const;

  [[nodiscard]] std::chrono::milliseconds timeout() const;
  // What told this process its rank ("Slurm step 17.0"), and how the group speaks, in one line.
  [[nodiscard]] const std::string& found_by() const;
  [[nodiscard]] std::string description() const;

  // All ranks of this group call it with the same list of this group's ranks. A rank that is not in
  // the list gets a group of which it is not a member.
  [[nodiscard]] Group new_group(const std::vector<int>& ranks) const;

  // A name for keys in store() that is the same on all ranks which ask in the same order:
  // "kind/0", "kind/1", ...
  [[nodiscard]] std::string next_name(const std::string& kind) const;

  // Tells the others what this rank is doing, for their errors; for one that saves they wait longer
  // than the timeout. Only shared memory can do this. The cost is negligible.
  void report(const Progress& progress) const;
  // What a rank of the group said last; nothing where the backend cannot tell.
  [[nodiscard]] std::optional<Progress> progress_of(int rank) const;

  // Waits until is_done(), which is asked often: for what no collective of this group waits for,
  // such as a GPU that sums over the ranks. Throws PeerError, which begins with `what`, as soon as
  // a rank of this host has ended, and after the timeout. That names the ranks which are behind
  // this one, by what they told report(), if the group can know. The group is then unusable.
  void wait_for(const std::string& what, const std::function<bool()>& is_done,
                const CollectiveOptions& options = {}) const;
  // A backend may wait in its first collective for all ranks without a limit, as NCCL does. There
  // this waits for them before, and throws PeerError, which begins with `what`, if one has ended,
  // and after the timeout with those that did not come. Collectives of this class do so themselves;
  // it is for what uses backend() or process_group(). All ranks must call it, in the same order as
  // collectives.
  void meet(const std::string& what, at::DeviceType device,
            const CollectiveOptions& options = {}) const;
  // Waits until the device, or device(), has done the current stream's work, and throws like
  // wait_for(). On the CPU there is nothing to wait for. Read what ranks have summed behind it:
  // item() and cpu() would wait for ever for a rank that is gone.
  void synchronize() const { synchronize(device()); }
  void synchronize(at::Device device) const;

  // Ends the group on this rank; harmless when repeated. A later collective throws UsageError.
  void destroy();

  Work all_reduce(const at::Tensor& tensor, const ReduceOptions& options = {}) const;
  Work broadcast(const at::Tensor& tensor, int root = 0,
                 const CollectiveOptions& options = {}) const;
  // The result is defined on the root alone; elsewhere the tensor's content is unspecified.
  Work reduce(const at::Tensor& tensor, int root = 0, const ReduceOptions& options = {}) const;
  // outputs[i] receives rank i's input and has its shape; shapes may differ between ranks.
  Work all_gather(const std::vector<at::Tensor>& outputs, const at::Tensor& input,
                  const CollectiveOptions& options = {}) const;
  // Only the root gives outputs (gather) or inputs (scatter), one per rank.
  Work gather(const std::vector<at::Tensor>& outputs, const at::Tensor& input, int root = 0,
              const CollectiveOptions& options = {}) const;
  Work scatter(const at::Tensor& output, const std::vector<at::Tensor>& inputs, int root = 0,
               const CollectiveOptions& options = {}) const;
  Work reduce_scatter(const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                      const ReduceOptions& options = {}) const;
  // inputs[i] goes to rank i, outputs[i] comes from it; sizes may differ.
  Work all_to_all(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                  const CollectiveOptions& options = {}) const;
  Work send(const at::Tensor& tensor, int destination,
            const PointToPointOptions& options = {}) const;
  Work recv(const at::Tensor& tensor, int source, const PointToPointOptions& options = {}) const;

  // Returns when all ranks have called it. At the deadline, throws PeerError that names exactly the
  // ranks that did not arrive, the same ones on every rank. The group is then unusable.
  void barrier(const CollectiveOptions& options = {}) const;

  // Byte strings of any size, through the same backend. They block.
  [[nodiscard]] std::string broadcast_bytes(const std::string& bytes, int root = 0,
                                            const CollectiveOptions& options = {}) const;
  [[nodiscard]] std::vector<std::string> all_gather_bytes(
      const std::string& bytes, const CollectiveOptions& options = {}) const;

  // What the backend for such tensors can do. False for a process that is alone.
  [[nodiscard]] bool can(Capability capability, at::DeviceType type = at::kCPU) const;

  // For c10d users: LibTorch's own objects, alive as long as they are held.
  [[nodiscard]] c10::intrusive_ptr<c10d::Backend> backend(at::DeviceType type = at::kCPU) const;
  [[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> process_group() const;
  [[nodiscard]] c10::intrusive_ptr<c10d::Store> store() const;

  struct State;
  explicit Group(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  struct Call;  // One collective being started: checks, backend, name and deadline.

  std::shared_ptr<State> state_;
};

}  // namespace lockstep
