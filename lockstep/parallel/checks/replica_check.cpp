#include "lockstep/parallel/checks/replica_check.h"

#include <cstring>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/comm/rendezvous/store_post.h"
#include "lockstep/parallel/checks/fingerprint.h"

namespace lockstep::parallel {
namespace {

using Prints = std::vector<std::uint64_t>;

constexpr std::size_t kKept = 2;
constexpr std::chrono::seconds kFingerprintPatience{2};

std::vector<std::uint8_t> bytes_of(const Prints& prints) {
  std::vector<std::uint8_t> bytes(prints.size() * sizeof(std::uint64_t));
  std::memcpy(bytes.data(), prints.data(), bytes.size());
  return bytes;
}

Prints prints_of(const std::vector<std::uint8_t>& bytes) {
  Prints prints(bytes.size() / sizeof(std::uint64_t));
  std::memcpy(prints.data(), bytes.data(), prints.size() * sizeof(std::uint64_t));
  return prints;
}

}  // namespace

ReplicaCheck::ReplicaCheck(const Group& group, std::string key, std::uint64_t every)
    : group_(group), key_(std::move(key)), every_(group.is_distributed() ? every : 0) {}

std::string ReplicaCheck::key_of(std::uint64_t step, int rank) const {
  return key_ + "/replica/" + std::to_string(step) + "/" + std::to_string(rank);
}

void ReplicaCheck::begin_step(std::uint64_t step, const std::vector<Parameter>& parameters) {
  if (every_ == 0 || step % every_ != 0) {
    return;
  }
  Prints prints;
  for (const auto& parameter : parameters) {
    prints.push_back(fingerprint(parameter.tensor));
  }
  const auto store = group_.store();
  const auto key = key_of(step, group_.rank());
  comm::post(*store, key, bytes_of(prints));
  if (old_keys_.empty() || old_keys_.back() != key) {  // Several forwards may belong to a step.
    old_keys_.push_back(key);
  }
  if (old_keys_.size() > kKept) {
    store->deleteKey(old_keys_.front());
    old_keys_.pop_front();
  }
  pending_ = step;
}

std::vector<std::pair<int, std::vector<std::uint64_t>>> ReplicaCheck::collect(
    std::uint64_t step, std::size_t count) const {
  const auto store = group_.store();
  const c10d::StoreTimeoutGuard brief(*store, kFingerprintPatience);
  std::vector<std::pair<int, Prints>> all;
  for (int rank = 0; rank < group_.size(); ++rank) {
    const auto key = key_of(step, rank);
    try {
      if (store->check({key})) {
        auto prints = prints_of(store->get(key));
        prints.resize(count);
        all.emplace_back(rank, std::move(prints));
      }
    } catch (const std::exception&) {  // Gone in between: that rank is far ahead.
    }
  }
  return all;
}

void ReplicaCheck::end_step(const std::vector<Parameter>& parameters) {
  const std::uint64_t step = std::exchange(pending_, 0);
  if (step == 0) {
    return;
  }
  const auto all = collect(step, parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::vector<int> different;
    for (const auto& [rank, prints] : all) {
      if (prints[i] != all.front().second[i]) {
        different.push_back(rank);
      }
    }
    if (!different.empty()) {
      throw PeerError("DistributedDataParallel on rank " + std::to_string(group_.rank()) + " of " +
                      std::to_string(group_.size()) + ": the replicas are no longer equal: '" +
                      parameters[i].name + "' differs at the begin of step " +
                      std::to_string(step) + " between rank " + std::to_string(all.front().first) +
                      " and rank" + (different.size() > 1 ? "s " : " ") + join_numbers(different) +
                      "; go back to a checkpoint. Memory, or code that changes weights on one "
                      "rank only, is to blame");
    }
  }
}

}  // namespace lockstep::parallel
