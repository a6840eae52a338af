#include "lockstep/comm/backends/support/profile.h"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <vector>

namespace lockstep::comm {
namespace {

// The words after the colon are those that Gloo and NCCL use.
const char* title_of(c10d::OpType type) {
  switch (type) {
    case c10d::OpType::BROADCAST:
      return "lockstep:broadcast";
    case c10d::OpType::ALLREDUCE:
    case c10d::OpType::ALLREDUCE_COALESCED:
      return "lockstep:all_reduce";
    case c10d::OpType::_ALLREDUCE_SPARSE:
      return "lockstep:sparse_all_reduce";
    case c10d::OpType::REDUCE:
      return "lockstep:reduce";
    case c10d::OpType::ALLGATHER:
    case c10d::OpType::ALLGATHER_COALESCED:
    case c10d::OpType::_ALLGATHER_BASE:
      return "lockstep:all_gather";
    case c10d::OpType::GATHER:
      return "lockstep:gather";
    case c10d::OpType::SCATTER:
      return "lockstep:scatter";
    case c10d::OpType::REDUCE_SCATTER:
      return "lockstep:reduce_scatter";
    case c10d::OpType::ALLTOALL:
    case c10d::OpType::ALLTOALL_BASE:
      return "lockstep:all_to_all";
    case c10d::OpType::SEND:
      return "lockstep:send";
    case c10d::OpType::RECV:
      return "lockstep:recv";
    case c10d::OpType::RECVANYSOURCE:
      return "lockstep:recvAnySource";
    case c10d::OpType::BARRIER:
      return "lockstep:barrier";
    default:
      return "lockstep:collective";
  }
}

}  // namespace

std::shared_ptr<at::RecordFunction> begin_profile(c10d::OpType type,
                                                  std::span<const at::Tensor> inputs) {
  if (!at::hasCallbacks()) {
    return nullptr;
  }
  auto event = std::make_shared<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  if (!event->isActive()) {
    return nullptr;
  }
  event->_setAsync();  // It may end in another thread.
  std::vector<c10::IValue> values(inputs.begin(), inputs.end());
  event->before(title_of(type), c10::ArrayRef<const c10::IValue>(values.data(), values.size()));
  return event;
}

}  // namespace lockstep::comm
