#include "lockstep/comm/backends/mpi/engine.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

// How long to wait for MPI's lock. Only the forming of a group that fails holds it longer.
constexpr std::chrono::seconds kMoment{1};

}  // namespace

MpiEngine::MpiEngine(const MpiLibrary& mpi)
    : mpi_(mpi), thread_(calls_, [this] { poll(Deadline::in(kMoment)); }) {}

void MpiEngine::require_owner(const std::string& what) const {
  if (!in_owner()) {
    throw UsageError(
        what +
        ": this process is a fork of the rank, and MPI is its parent's alone; leave it "
        "to the parent, or form a group of another backend after fork()");
  }
}

void MpiEngine::start(const Operation& operation) {
  const MpiCall& call = operation->call;
  require_owner(call.what);
  const std::unique_lock lock(calls_, call.deadline.at());
  if (!lock || closed_ || !operation->group->broken.empty()) {
    throw PeerError(call.what + ": " +
                    (!lock     ? "timed out: MPI is busy with a group that does not come about"
                     : closed_ ? "MPI has ended"
                               : "the group is of no use since " + operation->group->broken));
  }
  for (const auto& begin : call.begins) {
    MPI_Request request = nullptr;
    try {
      mpi_.check(begin(mpi_, operation->group->comm, &request), call.what);
    } catch (const PeerError& error) {
      operation->group->broken = error.what();  // Others may have begun it.
      dropped_.push_back(operation);
      throw;
    }
    operation->requests.push_back(request);
  }
  under_way_.push_back(operation);
  thread_.watch(under_way_.size());
}

bool MpiEngine::wait(const MpiOperation& operation, Deadline until) {
  if (operation.is_done()) {
    return true;
  }
  require_owner(operation.call.what);
  const MpiThread::Rest rest(thread_);
  for (Backoff backoff(20'000); !operation.is_done(); backoff.pause()) {
    if (until.passed()) {
      return false;
    }
    poll(until);
    if (operation.is_done()) {
      return true;  // Without a pause.
    }
  }
  return true;
}

void MpiEngine::give_up(const Operation& operation, const PeerError& why) {
  std::exception_ptr error = std::make_exception_ptr(why.during(operation->call.what));
  {
    const std::unique_lock lock(calls_, kMoment);
    const auto found =
        lock ? std::find(under_way_.begin(), under_way_.end(), operation) : under_way_.end();
    if (lock && found != under_way_.end()) {
      under_way_.erase(found);
      error = drop(operation, why);
      thread_.watch(under_way_.size());
    } else if (lock) {
      error = nullptr;  // Another thread has just seen its end.
    }
  }
  if (error) {
    operation->end(error);
  }
  while (!operation->is_done()) {
    std::this_thread::yield();
  }
}

void MpiEngine::break_up(MpiGroup& group, const std::string& why) {
  if (!in_owner()) {
    return;
  }
  std::vector<Operation> late;
  {
    const std::unique_lock lock(calls_, kMoment);
    if (lock) {
      group.broken = why;
      std::copy_if(under_way_.begin(), under_way_.end(), std::back_inserter(late),
                   [&](const Operation& operation) { return operation->group.get() == &group; });
    }
  }
  for (const auto& operation : late) {
    give_up(operation, PeerError(why));
  }
}

bool MpiEngine::run_here(const std::function<void()>& task) {
  if (!in_owner()) {
    return false;
  }
  const std::unique_lock lock(calls_, kMoment);
  if (!lock || closed_) {
    return false;
  }
  task();
  return true;
}

void MpiEngine::close(const std::function<void()>& last_call, Deadline deadline) {
  const auto close_then_call = [this, last_call] {
    closed_ = true;
    last_call();
  };
  try {
    thread_.run_alone("leaving MPI", close_then_call, deadline);
  } catch (const std::exception&) {  // There is no one left to tell.
  }
  thread_.stop();
}

void MpiEngine::poll(Deadline until) {
  std::vector<Ended> ended;
  {
    const std::unique_lock lock(calls_, until.at());
    if (!lock || closed_) {
      return;
    }
    std::erase_if(under_way_, [&](const Operation& operation) { return test(operation, ended); });
    if (!ended.empty()) {
      thread_.watch(under_way_.size());
    }
  }
  for (const auto& [operation, error] : ended) {
    operation->end(error);
  }
}

bool MpiEngine::test(const Operation& operation, std::vector<Ended>& ended) {
  auto& requests = operation->requests;
  while (operation->completed < requests.size()) {
    int done = 0;
    const int code = mpi_.test(&requests[operation->completed], &done, &operation->status);
    try {
      mpi_.check(code, operation->call.what);
    } catch (const PeerError& error) {
      if (!operation->call.is_message) {
        operation->group->broken = error.what();
      }
      if (operation->completed + 1 < requests.size()) {
        dropped_.push_back(operation);  // The rest of it is still MPI's.
      }
      ended.push_back({operation, std::current_exception()});
      return true;
    }
    if (done == 0) {
      const Deadline deadline = operation->call.deadline;
      if (!deadline.passed()) {
        return false;
      }
      ended.push_back({operation, drop(operation, late(deadline))});
      return true;
    }
    ++operation->completed;
  }
  ended.push_back({operation, nullptr});
  return true;
}

std::exception_ptr MpiEngine::drop(const Operation& operation, const PeerError& why) {
  const PeerError error = why.during(operation->call.what);
  if (operation->call.is_receive) {
    bool ended = true;
    for (auto& request : operation->requests) {
      int done = 0;
      mpi_.cancel(&request);
      mpi_.test(&request, &done, MPI_STATUS_IGNORE);
      ended = ended && done != 0;
    }
    if (!ended) {
      dropped_.push_back(operation);  // Its message is on the way: too late to cancel.
    }
    return std::make_exception_ptr(error);
  }
  dropped_.push_back(operation);
  if (!operation->call.is_message) {
    operation->group->broken = error.what();
  }
  return std::make_exception_ptr(error);
}

}  // namespace lockstep::comm
