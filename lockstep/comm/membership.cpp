// Who is there, who shares a host, and so which GPU is whose: through the store, without a
// collective, so that a rank that does not take part (one that runs Python) disturbs nothing.
#include <ATen/Context.h>

#include <algorithm>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/text/text.h"
#include "lockstep/comm/group_state.h"
#include "lockstep/comm/peer_error.h"
#include "lockstep/comm/rendezvous/rank_info.h"

namespace lockstep::comm {
namespace {

std::string host_key(int rank) { return "lockstep/host/" + std::to_string(rank); }

}  // namespace

void connect_or_explain(Group::State& state, const char* operation, Deadline deadline) {
  try {
    as_peer_error(std::string(operation) + " on " + state.who(), [&] { state.connect(deadline); });
  } catch (const PeerError& error) {
    std::vector<int> missing;
    std::string differ;
    try {
      missing = ranks_not_there(*state.store, state.size);
      differ = differences(*state.store, state.rank_info());
    } catch (const std::exception&) {  // The store is gone as well; the first error stands.
    }
    state.leave(state.size - static_cast<int>(missing.size()));  // The others want to know as well.
    if (missing.empty() && differ.empty()) {
      throw;
    }
    const bool says_the_same = dynamic_cast<const AbsentRanks*>(&error) != nullptr;
    throw PeerError(std::string(operation) + " on " + state.who() + ": " +
                    (missing.empty() ? ""
                                     : list_ranks(missing) + " did not join within " +
                                           to_text(state.job->timeout) + "; ") +
                    (differ.empty() ? "see their logs, or raise the timeout" : differ) +
                    (says_the_same ? "" : std::string(" (") + error.what() + ")"));
  }
}

void publish_host(const Job& job) {
  const std::string id = host_id();
  job.store->set(host_key(job.member.rank), std::vector<std::uint8_t>(id.begin(), id.end()));
}

Place find_place(const Job& job) {
  if (job.member.world_size == 1) {
    return {};
  }
  std::vector<std::vector<std::uint8_t>> hosts;
  for (int rank = 0; rank < job.member.world_size; ++rank) {
    hosts.push_back(as_peer_error("looking for the host of rank " + std::to_string(rank),
                                  [&] { return job.store->get(host_key(rank)); }));
  }
  const auto& here = hosts[static_cast<std::size_t>(job.member.rank)];
  Place place;
  place.local_rank =
      static_cast<int>(std::count(hosts.begin(), hosts.begin() + job.member.rank, here));
  place.local_size = static_cast<int>(std::count(hosts.begin(), hosts.end(), here));
  std::vector<std::vector<std::uint8_t>> nodes;  // In the order of their first rank.
  for (const auto& host : hosts) {
    if (std::find(nodes.begin(), nodes.end(), host) == nodes.end()) {
      nodes.push_back(host);
    }
  }
  place.node_rank = static_cast<int>(std::find(nodes.begin(), nodes.end(), here) - nodes.begin());
  return place;
}

}  // namespace lockstep::comm

namespace lockstep {
namespace {

// The backend of a job's GPUs; none if it has none for them.
std::optional<std::string> gpu_backend(const comm::Job& job) {
  for (const auto& [device, name] : job.registry.parse(job.backends)) {
    if (device == at::kCUDA) {
      return name;
    }
  }
  return std::nullopt;
}

}  // namespace

int Group::local_rank() const {
  const auto& known = state_->job->member.local_rank;
  return known ? *known : comm::find_place(*state_->job).local_rank;
}

int Group::local_size() const {
  const auto& known = state_->job->member.local_size;
  return known ? *known : comm::find_place(*state_->job).local_size;
}

int Group::node_rank() const {
  const auto& known = state_->job->member.node_rank;
  return known ? *known : comm::find_place(*state_->job).node_rank;
}

at::Device Group::device() const {
  const auto gpus = static_cast<int>(at::getNumGPUs());
  const auto& job = *state_->job;
  const auto backend = is_distributed() ? gpu_backend(job) : std::nullopt;
  if (gpus == 0 || (is_distributed() && !backend)) {
    return at::kCPU;
  }
  const int local = local_rank();
  if (backend && job.registry.capabilities(*backend).contains(Capability::kSharesGpus)) {
    return {at::kCUDA, static_cast<c10::DeviceIndex>(local % gpus)};
  }
  if (local >= gpus) {
    throw UsageError("device of " + state_->who() + ": local rank " + std::to_string(local) +
                     " has no GPU of its own, this host shows " + std::to_string(gpus) +
                     "; start at most that many ranks here, or hide the GPUs with "
                     "CUDA_VISIBLE_DEVICES= to use the CPU");
  }
  return {at::kCUDA, static_cast<c10::DeviceIndex>(local)};
}

std::vector<int> Group::gpu_ids() const {
  std::vector<int> ids;
  const auto visible = Environment::of_this_process().get("CUDA_VISIBLE_DEVICES");
  const auto names = split(visible.value_or(""), ',');
  for (std::size_t i = 0; i < at::getNumGPUs(); ++i) {
    const auto id = visible && i < names.size() ? parse_int(names[i]) : std::nullopt;
    ids.push_back(static_cast<int>(id.value_or(static_cast<std::int64_t>(i))));
  }
  return ids;
}

}  // namespace lockstep
