// One collective being started: its checks, its backend, its name and its deadline.
#pragma once

#include <c10/util/FunctionRef.h>

#include "lockstep/comm/group_state.h"
#include "lockstep/comm/work_state.h"

namespace lockstep {

struct Group::Call {
  enum class Kind { kCollective, kMessage };  // Only the first are counted: all ranks call them.
  // Throws UsageError if the group is destroyed, this process is no member, or the
  // tensor is undefined or on a device that the group has no backend for.
  Call(const Group& group, const char* operation, const at::Tensor& tensor,
       std::optional<std::chrono::milliseconds> timeout, Kind kind = Kind::kCollective);

  // Throws UsageError unless `rank` is one of the group's; `role` is its name in the call.
  void require_rank(int rank, const char* role) const;
  // Throws UsageError unless there is one defined tensor per rank, all of `like`'s dtype and
  // device.
  void require_one_per_rank(const std::vector<at::Tensor>& tensors, const char* role,
                            const at::Tensor& like) const;
  [[noreturn]] void reject(const std::string& why) const;

  // Starts the c10d work and names errors. `finish` runs in wait(), after the work.
  Work start(c10::function_ref<c10::intrusive_ptr<c10d::Work>()> begin,
             std::function<void()> finish = nullptr) const;

  // What need not be composed: for our own backends nothing, for NCCL averages.
  [[nodiscard]] bool is_complete() const { return group.can(Capability::kEverything, device); }
  [[nodiscard]] bool can_average() const { return group.can(Capability::kAverages, device); }

  const Group& group;
  Kind kind;
  at::DeviceType device;
  std::string what;
  c10::intrusive_ptr<c10d::Backend> backend;
  std::chrono::milliseconds timeout;
};

}  // namespace lockstep
