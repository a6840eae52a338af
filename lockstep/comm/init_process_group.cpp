#include "lockstep/comm/init_process_group.h"

#include <unistd.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/process/crash_report.h"
#include "lockstep/comm/group_state.h"
#include "lockstep/comm/peer_error.h"
#include "lockstep/comm/placement_allocator.h"
#include "lockstep/comm/rendezvous/interfaces.h"
#include "lockstep/comm/rendezvous/rendezvous.h"

namespace lockstep {
namespace {

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kFile = "file://";

// For tcp:// and file://, where rank and world size are given by hand or, failing that,
// by the same variables as for env://.
cluster::Membership given_by_hand(const InitOptions& options, const Environment& environment) {
  const auto rank =
      options.rank ? std::optional<std::int64_t>(*options.rank) : environment.get_int("RANK");
  const auto size = options.world_size ? std::optional<std::int64_t>(*options.world_size)
                                       : environment.get_int("WORLD_SIZE");
  if (!rank || !size) {
    throw UsageError("init_process_group with init_method '" + options.init_method +
                     "': " + (rank ? "world_size" : "rank") +
                     " is missing; give .rank and .world_size, or set RANK and WORLD_SIZE");
  }
  cluster::check_rank(*rank, *size, "init_process_group with .rank and .world_size");
  cluster::Membership member;
  member.launched = true;
  member.found_by = options.init_method;
  member.rank = static_cast<int>(*rank);
  member.world_size = static_cast<int>(*size);
  return member;
}

cluster::Membership who_am_i(const InitOptions& options, const Environment& environment) {
  const std::string_view method = options.init_method;
  if (method.starts_with(kTcp)) {
    auto member = given_by_hand(options, environment);
    member.master = parse_endpoint(method.substr(kTcp.size()), "init_method");
    return member;
  }
  if (method.starts_with(kFile)) {
    return given_by_hand(options, environment);
  }
  if (method == "env://" || (method.empty() && (options.rank || options.world_size))) {
    return cluster::discover_env(environment, options.rank, options.world_size);
  }
  if (!method.empty()) {
    throw UsageError("init_process_group: init_method is '" + options.init_method +
                     "', expected env://, tcp://host:port or file:///path");
  }
  return cluster::discover(environment, ::getppid());
}

comm::StoreLife store_life(const comm::Job& job) {
  if (job.backends.empty()) {
    return comm::StoreLife::kWithItsUsers;
  }
  const auto named = job.registry.parse(job.backends);
  const bool has_rounds = std::any_of(named.begin(), named.end(), [&](const auto& one) {
    return job.registry.capabilities(one.second).contains(Capability::kWaitsForAllRanks);
  });
  return has_rounds ? comm::StoreLife::kWithTheProcess : comm::StoreLife::kWithItsUsers;
}

// Gradients are allocated in memory that the backend sums in place, if it has such. The program's
// allocator is set now, while it starts, and not when a module is wrapped.
void prepare_for_gradients(const Group::State& state, const Environment& environment) {
  const auto cpu = state.backends.find(c10::kCPU);
  if (state.size > 1 && cpu != state.backends.end() &&
      cpu->second->supportsTensorAlloc(/*deviceIdx=*/0)) {
    comm::install_placement_allocator(environment);
  }
}

}  // namespace

Group init_process_group(const InitOptions& options) {
  if (options.timeout <= std::chrono::milliseconds(0)) {
    throw UsageError("init_process_group: the timeout is " +
                     std::to_string(options.timeout.count()) + " ms, expected more than 0");
  }
  const auto environment = Environment::of_this_process();
  install_crash_report(environment);
  const auto deadline = Deadline::in(options.timeout);

  auto job = std::make_shared<comm::Job>();
  job->member = who_am_i(options, environment);
  job->timeout = options.timeout;
  job->registry = options.registry;
  job->backends = options.backend;
  if (job->backends.empty() && job->member.launched) {
    job->backends = job->registry.default_backends();
  }
  if (!job->backends.empty()) {
    (void)job->registry.parse(job->backends);  // Rejects a wrong name before anyone waits.
  }

  const std::string what = "init_process_group on rank " + std::to_string(job->member.rank) +
                           " of " + std::to_string(job->member.world_size);
  auto rendezvous = comm::as_peer_error(what, [&] {
    return std::string_view(options.init_method).starts_with(kFile)
               ? comm::meet_in_file(options.init_method.substr(kFile.size()), job->member, deadline)
               : comm::meet(job->member, deadline, store_life(*job));
  });
  rendezvous.store->setTimeout(deadline.as_timeout());
  job->hosts_store = rendezvous.hosts_store;
  job->store = c10::make_intrusive<c10d::PrefixStore>("default_pg", rendezvous.store);
  if (!job->backends.empty()) {
    job->interfaces = comm::choose_interfaces(environment, job->member, rendezvous.master_host);
  }
  comm::as_peer_error(what, [&] { comm::publish_place(*job); });

  const int rank = job->member.rank;
  const int size = job->member.world_size;
  auto keys = job->store;
  auto state = std::make_shared<Group::State>(std::move(job), std::move(keys), "0", rank, size);
  try {
    comm::connect_or_explain(*state, "init_process_group", deadline);
  } catch (...) {
    state.reset();
    comm::forget_store(std::move(rendezvous));
    throw;
  }
  rendezvous.store->setTimeout(options.timeout);
  prepare_for_gradients(*state, environment);
  return Group(std::move(state));
}

}  // namespace lockstep
