// Who is there, who shares a host, and so which GPU is whose: through the store, without a
// collective, so that a rank that does not take part (one that runs Python) disturbs nothing.
#include <ATen/Context.h>

#include <algorithm>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/text/text.h"
#include "lockstep/comm/gpu_choice.h"
#include "lockstep/comm/group_state.h"
#include "lockstep/comm/peer_error.h"
#include "lockstep/comm/rendezvous/rank_info.h"
#include "lockstep/device/gpu.h"

namespace lockstep::comm {
namespace {

std::string host_key(int rank) { return "lockstep/host/" + std::to_string(rank); }

// The backend of a job's GPUs; none if it has none for them.
std::optional<std::string> gpu_backend(const Job& job) {
  if (!job.backends.empty()) {
    for (const auto& [device, name] : job.registry.parse(job.backends)) {
      if (device == at::kCUDA) {
        return name;
      }
    }
  }
  return std::nullopt;
}

// What the first ranks have published. Waits until they have; errors begin with `what`.
std::vector<SeenGpus> published_places(const Job& job, int ranks, const std::string& what) {
  std::vector<SeenGpus> places;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto bytes = as_peer_error(what + ", waiting for rank " + std::to_string(rank),
                                     [&] { return job.store->get(host_key(rank)); });
    places.push_back(seen_gpus_from(std::string(bytes.begin(), bytes.end())));
  }
  return places;
}

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

void publish_place(const Job& job) {
  SeenGpus seen{.host = host_id(), .bus_ids = {}};
  if (gpu_backend(job)) {  // Else CUDA is not asked, after which a process must not fork.
    for (std::size_t i = 0; i < at::getNumGPUs(); ++i) {
      seen.bus_ids.push_back(device::pci_bus_id({at::kCUDA, static_cast<c10::DeviceIndex>(i)}));
    }
  }
  const auto text = text_of(seen);
  job.store->set(host_key(job.member.rank), std::vector<std::uint8_t>(text.begin(), text.end()));
}

Place find_place(const Job& job) {
  if (job.member.world_size == 1) {
    return {};
  }
  std::vector<std::string> hosts;
  for (auto& place : published_places(job, job.member.world_size, "looking for the ranks' hosts")) {
    hosts.push_back(std::move(place.host));
  }
  const auto& here = hosts[static_cast<std::size_t>(job.member.rank)];
  Place place;
  place.local_rank =
      static_cast<int>(std::count(hosts.begin(), hosts.begin() + job.member.rank, here));
  place.local_size = static_cast<int>(std::count(hosts.begin(), hosts.end(), here));
  std::vector<std::string> nodes;  // In the order of their first rank.
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

bool may_share_gpus(const comm::Job& job, const std::string& backend) {
  return job.registry.capabilities(backend).contains(Capability::kSharesGpus) ||
         comm::nccl_shares_gpus(Environment::of_this_process());
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
  const auto backend = comm::gpu_backend(job);
  if (gpus == 0 || (is_distributed() && !backend)) {
    return at::kCPU;
  }
  const int local = local_rank();
  if (!backend || local < gpus || may_share_gpus(job, *backend)) {
    return {at::kCUDA, static_cast<c10::DeviceIndex>(local % gpus)};
  }
  const std::lock_guard lock(state_->gpu_mutex);
  if (!state_->gpu) {
    state_->gpu = comm::choose_gpu(comm::published_places(
        job, job.member.rank + 1,
        "device of " + state_->who() + ", which sees " + std::to_string(gpus) +
            " of its host's GPUs, asks which ones others see (Python ranks do not tell)"));
  }
  if (const auto other = state_->gpu->shared_with) {
    throw UsageError("device of " + state_->who() + ": local rank " + std::to_string(local) +
                     " has no GPU of its own, this host shows " + std::to_string(gpus) +
                     " and rank " + std::to_string(*other) +
                     " has the same one; start at most that many ranks here, or hide the GPUs with "
                     "CUDA_VISIBLE_DEVICES= to use the CPU");
  }
  return {at::kCUDA, static_cast<c10::DeviceIndex>(state_->gpu->number)};
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
