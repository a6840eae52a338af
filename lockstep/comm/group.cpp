#include "lockstep/comm/group.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <thread>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/comm/backends/local/backend.h"
#include "lockstep/comm/group_state.h"
#include "lockstep/comm/peer_error.h"
#include "lockstep/comm/rendezvous/store_round.h"
#include "lockstep/comm/store_call.h"

namespace lockstep {
namespace {

// Long enough for peers that are about to leave too, short enough not to be taken for a hang.
constexpr std::chrono::seconds kGoodbye{5};
constexpr std::chrono::seconds kAnswer{1};  // Limit for a store's answer to one call.

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

c10::intrusive_ptr<c10d::Store> with_prefix(const std::string& prefix,
                                            const c10::intrusive_ptr<c10d::Store>& store) {
  return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
}

// Counts this rank as leaving, then waits until `company` ranks are, for a limited time.
void say_goodbye(c10d::Store& store, int company) {
  try {
    auto gone = store.add("left", 1);
    const auto deadline = Deadline::in(kGoodbye);
    while (gone < company && !deadline.passed()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      gone = store.add("left", 0);
    }
  } catch (const std::exception&) {  // The host left first: nothing to wait for.
  }
}

const Group::State& open(const std::shared_ptr<Group::State>& state) {
  if (!state->fork_guard.in_owner()) {
    throw UsageError("the group of " + state->who() +
                     " belongs to the process that formed it, and this one is a fork of it; form a "
                     "group after fork(), or leave it to the parent");
  }
  if (state->closed) {
    throw UsageError("the group of " + state->who() + " was destroyed; make a new one");
  }
  return *state;
}

}  // namespace

Group::State::State(std::shared_ptr<const comm::Job> the_job,
                    c10::intrusive_ptr<c10d::Store> the_keys, std::string the_name, int the_rank,
                    int the_size)
    : job(std::move(the_job)),
      name(std::move(the_name)),
      rank(the_rank),
      size(the_size),
      keys(std::move(the_keys)) {
  store = with_prefix("lockstep", with_prefix(name + "/", keys));
}

Group::State::~State() {
  close();
  if (!fork_guard.in_owner()) {
    // Gloo, NCCL and the store would join threads that are not here and speak on their parent's
    // connections, so a fork keeps them until it ends.
    struct Kept {
      std::shared_ptr<const comm::Job> job;
      c10::intrusive_ptr<c10d::Store> store;
      c10::intrusive_ptr<c10d::Store> keys;
      std::map<c10::DeviceType, c10::intrusive_ptr<c10d::Backend>> backends;
      c10::intrusive_ptr<c10d::ProcessGroup> process_group;
      std::unique_ptr<comm::LateRanksInCrashReport> late_ranks;
    };
    new (std::nothrow) Kept{std::move(job),      std::move(store),         std::move(keys),
                            std::move(backends), std::move(process_group), std::move(late_ranks)};
  }
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): kept, see above.

std::string Group::State::who() const {
  const std::string text = "rank " + std::to_string(rank) + " of " + std::to_string(size);
  return is_world() ? text : text + " in group " + name;
}

std::uint64_t Group::State::next_number(c10::DeviceType device) const {
  const auto known = capabilities.find(device);
  const bool by_backend =
      known != capabilities.end() && known->second.contains(Capability::kNumbers);
  return (by_backend ? backends.at(device)->getSequenceNumberForGroup() : collectives.load()) + 1;
}

void Group::State::count(c10::DeviceType device) {
  const auto known = capabilities.find(device);
  if (known == capabilities.end() || !known->second.contains(Capability::kNumbers)) {
    ++collectives;
  }
}

comm::RankInfo Group::State::rank_info() const {
  comm::RankInfo entry{.rank = rank, .size = size, .backend = "", .text = ""};
  for (const auto& [device, backend_name] : job->registry.parse(job->backends)) {
    if (device == at::kCPU) {
      entry.backend = backend_name;
    }
  }
  return entry;
}

void Group::State::connect(Deadline deadline) {
  const auto group_store = with_prefix(name + "/", keys);
  process_group = c10::make_intrusive<c10d::ProcessGroup>(group_store, rank, size);
  if (job->backends.empty()) {
    const auto local = c10::make_intrusive<comm::LocalBackend>();
    for (const auto device : {c10::kCPU, c10::kCUDA}) {
      backends[device] = local;
      process_group->setBackend(device, c10d::ProcessGroup::CUSTOM, local);
    }
    process_group->setDefaultBackend(c10d::ProcessGroup::CUSTOM);
    process_group->setGroupName(name);
    return;
  }
  const auto named = job->registry.parse(job->backends);
  const auto below = [&](c10::DeviceType device) {
    return with_prefix(c10::DeviceTypeName(device, /*lower_case=*/true) + "/", group_store);
  };
  // Counted where a backend by itself would: so ranks of Python, which make nothing else, agree.
  const auto waiting = std::find_if(named.begin(), named.end(), [this](const auto& one) {
    return job->registry.capabilities(one.second).contains(Capability::kWaitsForAllRanks);
  });
  std::optional<comm::StoreRound> round;
  if (waiting != named.end()) {
    round.emplace(below(waiting->first));
    store = round->of(store);
    if (is_world()) {
      keys = round->of(keys);
    }
  }
  if (job->hosts_store) {
    store->set("host waits", bytes_of("1"));
  }
  comm::require_same_as_first(*store, rank_info());
  std::map<std::string, c10::intrusive_ptr<c10d::Backend>> made;
  std::string custom;
  for (const auto& [device, backend_name] : named) {
    auto& backend = made[backend_name];
    if (!backend) {
      const auto own = below(device);
      backend = job->registry.factory(backend_name)({.store = round ? round->of(own) : own,
                                                     .rank = rank,
                                                     .size = size,
                                                     .timeout = job->timeout,
                                                     .connect_timeout = deadline.as_timeout(),
                                                     .interfaces = job->interfaces});
    }
    backends[device] = backend;
    capabilities[device] = job->registry.capabilities(backend_name);
    if (size > 1 && capabilities[device].contains(Capability::kFirstWaitsForAll)) {
      first_is_due = true;
    }
    if (auto* board = dynamic_cast<comm::ProgressBoard*>(backend.get())) {
      progress = board;
    }
    const auto type = c10d::ProcessGroup::strToBackendType(backend_name);
    if (type == c10d::ProcessGroup::CUSTOM) {
      if (!custom.empty() && custom != backend_name) {
        // c10d keeps one backend per type and would silently take the first for both.
        throw UsageError("backend '" + job->backends + "': c10d has one place for '" + custom +
                         "' and '" + backend_name +
                         "'; expected one of them for both devices, or gloo or nccl beside one");
      }
      custom = backend_name;
    }
    process_group->setBackend(device, type, backend);
    process_group->setDefaultBackend(type);
  }
  process_group->setGroupName(name);
  if (progress != nullptr && backends.contains(at::kCUDA)) {
    late_ranks = std::make_unique<comm::LateRanksInCrashReport>(*progress, rank, size,
                                                                is_world() ? "" : name);
  }
  host_waits = store->check({"host waits"});
  if (round) {
    round->formed();
  }
}

void Group::State::note_recordings() {
  const auto being_made = device::Graph::being_made();
  if (being_made.empty() || !device::Graph::is_stream_recorded()) {
    return;
  }
  const std::lock_guard lock(recordings_mutex);
  for (const auto& recording : being_made) {
    std::erase_if(recordings, [&](const auto& known) {
      return known.expired() || (!known.owner_before(recording) && !recording.owner_before(known));
    });
    recordings.push_back(recording);
  }
}

void Group::State::end_recordings() {
  const std::lock_guard lock(recordings_mutex);
  // NCCL would wait for the graphs that use it.
  device::Graph::end_recordings(recordings, "the process group of " + who());
}

bool Group::State::has_failed() const {
  if (broken || std::uncaught_exceptions() > unwinding_before) {
    return true;
  }
  const auto error = std::current_exception();  // Whoever closes the group may have caught it.
  if (error != nullptr && error != error_before) {
    return true;
  }
  return std::any_of(backends.begin(), backends.end(), [](const auto& one) {
    try {
      return one.second->getError() != c10d::ErrorType::SUCCESS;
    } catch (const std::exception&) {  // A backend that does not tell.
      return false;
    }
  });
}

void Group::State::close() {
  if (std::exchange(closed, true) || rank < 0 || !fork_guard.in_owner()) {
    return;
  }
  const bool unwinding = std::uncaught_exceptions() > unwinding_before;
  const bool failed = has_failed();
  if (failed && progress != nullptr) {  // Others that wait for a GPU need not wait for this rank.
    const auto last = progress->progress_of(rank).value_or(Progress());
    progress->report({.phase = Phase::kFailed, .step = last.step});
  }
  process_group.reset();
  late_ranks.reset();
  progress = nullptr;
  end_recordings();
  for (auto& [device, backend] : backends) {
    try {
      if (failed && capabilities[device].contains(Capability::kShutdownWaits)) {
        backend->abort();
      }
      backend->shutdown();
    } catch (const std::exception&) {  // A backend that broke before has nothing to shut down.
    }
  }
  backends.clear();
  leave(unwinding ? 0 : size);
}

void Group::State::leave(int company) {
  if (std::exchange(left, true) || !is_world() || job->backends.empty() ||
      job->member.world_size == 1 || job->member.launcher_serves_store ||
      !host_waits.value_or(true)) {
    return;
  }
  comm::within(kGoodbye + kAnswer, [store = store, waits_for = job->hosts_store ? company : 0] {
    say_goodbye(*store, waits_for);
  });
}

int Group::rank() const { return state_->rank; }
int Group::size() const { return state_->size; }
bool Group::is_distributed() const { return !state_->job->backends.empty(); }
std::chrono::milliseconds Group::timeout() const { return state_->job->timeout; }
const std::string& Group::found_by() const { return state_->job->member.found_by; }

std::string Group::description() const {
  const auto& job = *state_->job;
  std::string text = state_->who() + ", found by: " + job.member.found_by;
  text += job.backends.empty() ? ", no process group" : ", backend " + job.backends;
  if (can(Capability::kChoosesInterfaces) && !job.interfaces.empty()) {
    text += " over " + join(job.interfaces, ",");
  }
  return text + ", timeout " + to_text(job.timeout);
}

Group Group::new_group(const std::vector<int>& ranks) const {
  const State& parent = open(state_);
  if (!is_member()) {
    throw UsageError("new_group: this process is no member of group " + parent.name);
  }
  for (const int rank : ranks) {
    if (rank < 0 || rank >= parent.size || std::count(ranks.begin(), ranks.end(), rank) != 1) {
      throw UsageError("new_group on " + parent.who() + ": the ranks are {" + join_numbers(ranks) +
                       "}, expected each to be from 0 to " + std::to_string(parent.size - 1) +
                       " and to appear once");
    }
  }
  if (ranks.empty()) {
    throw UsageError("new_group on " + parent.who() + ": the list of ranks is empty");
  }
  const int number = ++state_->children;
  const auto name = (parent.is_world() ? "" : parent.name + ".") + std::to_string(number);
  const auto here = std::find(ranks.begin(), ranks.end(), parent.rank);
  const int rank = here == ranks.end() ? -1 : static_cast<int>(here - ranks.begin());
  auto child =
      std::make_shared<State>(parent.job, parent.keys, name, rank, static_cast<int>(ranks.size()));
  {
    const std::lock_guard lock(state_->gpu_mutex);
    child->gpu = parent.gpu;
  }
  if (rank >= 0) {
    comm::connect_or_explain(*child, "new_group", Deadline::in(parent.job->timeout));
  }
  return Group(std::move(child));
}

std::string Group::next_name(const std::string& kind) const {
  return kind + "/" + std::to_string(state_->names[kind]++);
}

void Group::report(const Progress& progress) const {
  if (state_->progress != nullptr) {
    state_->progress->report(progress);
  }
}

std::optional<Progress> Group::progress_of(int rank) const {
  if (state_->progress == nullptr) {
    return std::nullopt;
  }
  return state_->progress->progress_of(rank);
}

void Group::meet(const std::string& what, at::DeviceType type,
                 const CollectiveOptions& options) const {
  const std::string place = what + " on " + open(state_).who();
  const auto limit = options.timeout.value_or(timeout());
  comm::require_positive(place, limit);
  comm::meet_before_first(*state_, place, type, limit);
}

bool Group::can(Capability capability, at::DeviceType type) const {
  const auto known = state_->capabilities.find(type);
  return known != state_->capabilities.end() && known->second.contains(capability);
}

void Group::destroy() { state_->close(); }

c10::intrusive_ptr<c10d::Backend> Group::backend(at::DeviceType type) const {
  const auto& backends = open(state_).backends;
  if (type == at::kCUDA) {
    state_->note_recordings();
  }
  const auto found = backends.find(type);
  if (found == backends.end()) {
    throw UsageError(
        state_->who() + " has no backend for " + c10::DeviceTypeName(type, true) +
        " tensors (backends: " + (is_distributed() ? state_->job->backends : "none, alone") +
        "); name one, e.g. init_process_group({.backend = \"cpu:lockstep,cuda:nccl\"})");
  }
  return found->second;
}

c10::intrusive_ptr<c10d::ProcessGroup> Group::process_group() const {
  const auto& group = open(state_).process_group;
  state_->note_recordings();
  return group;
}

c10::intrusive_ptr<c10d::Store> Group::store() const { return open(state_).store; }

}  // namespace lockstep
