#include "lockstep/comm/call.h"

#include "lockstep/base/error.h"
#include "lockstep/comm/peer_error.h"

namespace lockstep {

Group::Call::Call(const Group& the_group, const char* operation, const at::Tensor& tensor,
                  std::optional<std::chrono::milliseconds> the_timeout, Kind the_kind)
    : group(the_group),
      kind(the_kind),
      device(tensor.defined() ? tensor.device().type() : at::kCPU),
      timeout(the_timeout.value_or(the_group.timeout())) {
  const State& state = *group.state_;
  if (!group.is_member()) {
    throw UsageError(std::string(operation) + ": this process is no member of group " + state.name);
  }
  what = std::string(operation) + " on " + state.who();
  if (tensor.defined()) {
    backend = group.backend(device);
    if (kind == Kind::kCollective) {
      what = std::string(operation) + " #" + std::to_string(state.next_number(device)) + " on " +
             state.who();
    }
  }
  comm::require_positive(what, timeout);
  if (!tensor.defined()) {
    reject("the tensor is undefined");
  }
}

void comm::require_positive(const std::string& what, std::chrono::milliseconds timeout) {
  if (timeout <= std::chrono::milliseconds(0)) {
    throw UsageError(what + ": the timeout is " + std::to_string(timeout.count()) +
                     " ms, expected more than 0");
  }
}

void Group::Call::reject(const std::string& why) const { throw UsageError(what + ": " + why); }

void Group::Call::require_rank(int rank, const char* role) const {
  if (rank < 0 || rank >= group.size()) {
    reject("the " + std::string(role) + " is " + std::to_string(rank) + ", expected 0 to " +
           std::to_string(group.size() - 1));
  }
}

void Group::Call::require_one_per_rank(const std::vector<at::Tensor>& tensors, const char* role,
                                       const at::Tensor& like) const {
  if (tensors.size() != static_cast<std::size_t>(group.size())) {
    reject("there are " + std::to_string(tensors.size()) + " " + role +
           ", expected one per rank: " + std::to_string(group.size()));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    if (!tensor.defined() || tensor.scalar_type() != like.scalar_type() ||
        tensor.device() != like.device()) {
      const std::string found =
          tensor.defined()
              ? std::string(c10::toString(tensor.scalar_type())) + " on " + tensor.device().str()
              : "undefined";
      reject(std::string(role) + "[" + std::to_string(i) + "] is " + found + ", expected " +
             c10::toString(like.scalar_type()) + " on " + like.device().str());
    }
  }
}

Work Group::Call::start(c10::function_ref<c10::intrusive_ptr<c10d::Work>()> begin,
                        std::function<void()> finish) const {
  auto state = std::make_shared<Work::State>();
  state->what = what;
  state->finish = std::move(finish);
  if (kind == Kind::kCollective) {
    comm::meet_before_first(*group.state_, what, device, timeout);
  }
  comm::as_peer_error(what, [&] { state->parts.push_back(begin()); });
  if (kind == Kind::kCollective) {
    group.state_->count(device);
  }
  return Work(std::move(state));
}

}  // namespace lockstep
