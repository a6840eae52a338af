#include "lockstep/comm/host_agreement.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::comm {
namespace {

using Tensors = std::vector<at::Tensor>;

// std::hash may differ between the hosts' libraries.
std::uint64_t fnv1a(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace

// The largest and, by its negative, the smallest of all hosts' numbers: equal if all are.
HostAgreement::HostAgreement(const c10::intrusive_ptr<c10d::Backend>& lane, std::string call,
                             const WatchedWait& waiter, Deadline deadline)
    : lane_(lane), call_(std::move(call)), waiter_(waiter) {
  if (!lane_) {
    return;
  }
  const auto number = static_cast<std::int64_t>(fnv1a(call_) >> 1);
  numbers_ = at::tensor({number, -number}, at::kLong);
  Tensors tensors{numbers_};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  options.timeout = deadline.as_timeout();
  work_ = waiter_.remember(lane_->allreduce(tensors, options));
}

void HostAgreement::require(const HostMap& map, Deadline deadline) const {
  if (!work_) {
    return;
  }
  waiter_.wait(*work_);
  const auto* numbers = numbers_.const_data_ptr<std::int64_t>();
  if (numbers[0] == -numbers[1]) {
    return;
  }
  // All hosts of the lane have come here, and say what they call.
  constexpr std::int64_t kChars = 128;
  const auto own = at::zeros({kChars}, at::kByte);
  std::memcpy(own.data_ptr(), call_.data(), std::min<std::size_t>(call_.size(), kChars - 1));
  std::vector<Tensors> all{Tensors()};
  for (int host = 0; host < map.hosts(); ++host) {
    all[0].push_back(at::zeros({kChars}, at::kByte));
  }
  Tensors inputs{own};
  c10d::AllgatherOptions options;
  options.timeout = deadline.as_timeout();
  waiter_.wait(*lane_->allgather(all, inputs, options));
  std::vector<std::string> calls;
  for (int host = 0; host < map.hosts(); ++host) {
    calls.push_back(
        map.describe(host) + " calls " +
        static_cast<const char*>(all[0][static_cast<std::size_t>(host)].const_data_ptr()));
  }
  throw PeerError("the hosts' calls do not match: " + join(calls, ", ") +
                  "; all ranks must run the same collectives in the same order");
}

}  // namespace lockstep::comm
