#include "lockstep/comm/mpi_engine.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

// Yields at first, since a peer on this host may need the core; then sleeps, longer and longer.
class Backoff {
 public:
  void pause() {
    if (++pauses_ <= kYields) {
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(sleep_ * 2, kLongest);
  }

 private:
  static constexpr int kYields = 500;
  static constexpr std::chrono::microseconds kLongest{500};
  int pauses_ = 0;
  std::chrono::microseconds sleep_{20};
};

// To get at MPI for something that ends at once: only a group that does not come about is slower.
constexpr std::chrono::seconds kMoment{1};

std::exception_ptr peer_error(const std::string& text) {
  return std::make_exception_ptr(PeerError(text));
}

}  // namespace

std::string late(Deadline deadline) {
  return "timed out after " + to_text(deadline.total()) +
         ": a rank is late or left; see the logs of the others, or raise the timeout";
}

// While someone waits, and so makes progress, the thread rests.
class MpiEngine::Waiting {
 public:
  explicit Waiting(MpiEngine& engine) : engine_(engine) {
    const std::lock_guard lock(engine_.idle_mutex_);
    ++engine_.waiting_;
  }
  ~Waiting() {
    const std::lock_guard lock(engine_.idle_mutex_);
    if (--engine_.waiting_ == 0 && engine_.to_watch_ > 0) {
      engine_.idle_.notify_one();
    }
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  MpiEngine& engine_;
};

MpiEngine::MpiEngine(const MpiLibrary& mpi) : mpi_(mpi), thread_([this] { run(); }) {}

void MpiEngine::start(const Operation& operation) {
  const MpiCall& call = operation->call;
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
  count_under_way();
}

bool MpiEngine::wait(const MpiOperation& operation, Deadline until) {
  const Waiting here(*this);
  for (Backoff backoff; !operation.is_done(); backoff.pause()) {
    if (until.passed()) {
      return false;
    }
    poll(until);
  }
  return true;
}

void MpiEngine::give_up(const Operation& operation, const std::string& why) {
  std::exception_ptr error = peer_error(operation->call.what + ": " + why);
  {
    const std::unique_lock lock(calls_, kMoment);
    const auto found =
        lock ? std::find(under_way_.begin(), under_way_.end(), operation) : under_way_.end();
    if (lock && found != under_way_.end()) {
      under_way_.erase(found);
      error = drop(operation, why);
      count_under_way();
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
    give_up(operation, why);
  }
}

void MpiEngine::run_alone(const std::string& what, std::function<void()> task, Deadline deadline) {
  std::packaged_task<void()> packaged(std::move(task));
  auto done = packaged.get_future();
  {
    const std::lock_guard lock(idle_mutex_);
    tasks_.push_back(std::move(packaged));
    idle_.notify_one();
  }
  if (done.wait_until(deadline.at()) != std::future_status::ready) {
    throw PeerError(what + ": " + late(deadline));
  }
  done.get();
}

bool MpiEngine::run_here(const std::function<void()>& task) {
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
    run_alone("leaving MPI", close_then_call, deadline);
  } catch (const std::exception&) {  // There is no one left to tell.
  }
  bool stuck = false;
  {
    const std::lock_guard lock(idle_mutex_);
    stop_ = true;
    stuck = in_task_;
    idle_.notify_one();
  }
  stuck ? thread_.detach() : thread_.join();
}

void MpiEngine::run() {
  Backoff backoff;
  for (;;) {
    std::packaged_task<void()> task;
    {
      std::unique_lock lock(idle_mutex_);
      in_task_ = false;
      const auto has_work = [&] {
        return stop_ || !tasks_.empty() || (to_watch_ > 0 && waiting_ == 0);
      };
      if (!has_work()) {
        idle_.wait(lock, has_work);
        backoff = {};
      }
      if (stop_) {
        return;
      }
      if (!tasks_.empty()) {
        task = std::move(tasks_.front());
        tasks_.pop_front();
        in_task_ = true;
      }
    }
    if (task.valid()) {
      const std::lock_guard alone(calls_);
      task();
    } else {
      poll(Deadline::in(kMoment));
      backoff.pause();
    }
  }
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
      count_under_way();
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
      operation->group->broken = error.what();
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

std::exception_ptr MpiEngine::drop(const Operation& operation, const std::string& why) {
  const std::string text = operation->call.what + ": " + why;
  if (operation->call.is_receive) {
    for (auto& request : operation->requests) {
      mpi_.cancel(&request);
      mpi_.wait(&request, MPI_STATUS_IGNORE);  // Ends at once: it is cancelled.
    }
    return peer_error(text);
  }
  dropped_.push_back(operation);
  if (!operation->call.is_message) {
    operation->group->broken = text;
  }
  return peer_error(text);
}

void MpiEngine::count_under_way() {
  const std::lock_guard lock(idle_mutex_);
  to_watch_ = under_way_.size();
  if (to_watch_ > 0 && waiting_ == 0) {
    idle_.notify_one();
  }
}

}  // namespace lockstep::comm
