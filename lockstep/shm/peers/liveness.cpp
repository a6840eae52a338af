#include "lockstep/shm/peers/liveness.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace lockstep::shm {
namespace {

// A look into /proc takes some microseconds for each process, so it is not done on every call.
constexpr std::chrono::milliseconds kLookUp{25};

std::size_t fair_number() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur / 4;
}

UniqueFd open_pidfd(pid_t pid) {
#ifdef SYS_pidfd_open
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
#else
  errno = ENOSYS;
  return UniqueFd();
#endif
}

}  // namespace

Liveness::Liveness() : Liveness(Options{.most_pidfds = fair_number()}) {}

Liveness::Liveness(const Options& options)
    : most_pidfds_(options.most_pidfds), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

// Its lock may be held while the process forks, so a fork leaves it alone and makes its own.
Liveness& Liveness::of_this_process() {
  struct Shared {
    Liveness liveness;
    const Shared* inherited;  // From the process that forked; for tools that look for leaks.
  };
  static std::atomic<Shared*> shared{nullptr};
  Shared* found = shared.load();
  while (found == nullptr || !found->liveness.fork_guard_.in_owner()) {
    auto made = std::unique_ptr<Shared>(new Shared{.liveness = Liveness(), .inherited = found});
    if (shared.compare_exchange_strong(found, made.get())) {
      return made.release()->liveness;
    }
  }
  return found->liveness;
}

Liveness::ProcessPointer Liveness::watch(const ProcessId& id) {
  ProcessPointer process(new Process(id), [this](Process* gone) { forget(gone); });
  const std::lock_guard lock(mutex_);  // Released before a process that nobody needs is forgotten.
  auto& known = known_[{id.pid, id.start_time}];
  if (auto same = known.lock()) {
    return same;
  }
  known = process;
  if (id.pid != ::getpid()) {
    open(*process);
  }
  return process;
}

void Liveness::open(Process& process) {
  const pid_t pid = process.id_.pid;
  if (epoll_ && by_pidfd_.size() < most_pidfds_) {
    process.pidfd_ = open_pidfd(pid);
    if (!process.pidfd_ && errno == ESRCH) {
      process.ended_by_ = 0;
      return;
    }
  }
  // The pidfd is that of the process which has the pid now.
  const auto start = process.pidfd_ ? identify(pid).start_time : 0;
  if (start != 0 && process.id_.start_time != 0 && start != process.id_.start_time) {
    process.pidfd_.reset();
    process.ended_by_ = 0;
    return;
  }
  epoll_event event{.events = EPOLLIN, .data = {.fd = process.pidfd_.get()}};
  if (process.pidfd_ &&
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, process.pidfd_.get(), &event) == 0) {
    by_pidfd_[process.pidfd_.get()] = &process;
  } else {
    process.pidfd_.reset();
    without_pidfd_.push_back(&process);
  }
}

// A fork may hold the pidfd too, so closing it here would not take it out of the epoll.
void Liveness::close(Process& process) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, process.pidfd_.get(), nullptr);
  by_pidfd_.erase(process.pidfd_.get());
  process.pidfd_.reset();
}

void Liveness::forget(Process* process) {
  const std::unique_ptr<Process> gone(process);
  if (!fork_guard_.in_owner()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (gone->pidfd_) {
    close(*gone);
  }
  std::erase(without_pidfd_, process);
  const auto known = known_.find({gone->id_.pid, gone->id_.start_time});
  if (known != known_.end() && known->second.expired()) {
    known_.erase(known);
  }
}

void Liveness::look() {
  const std::lock_guard lock(mutex_);
  std::array<epoll_event, 32> events{};
  int found = 0;
  do {
    found = by_pidfd_.empty() ? 0
                              : ::epoll_wait(epoll_.get(), events.data(),
                                             static_cast<int>(events.size()), /*timeout=*/0);
    for (int i = 0; i < found; ++i) {
      Process& process = *by_pidfd_.at(events[static_cast<std::size_t>(i)].data.fd);
      process.ended_by_ = state_of(process.id_).signal;
      close(process);
    }
  } while (found == static_cast<int>(events.size()));
  if (!without_pidfd_.empty() && Clock::now() >= next_look_up_) {
    look_up_in_proc();
    next_look_up_ = Clock::now() + kLookUp;
  }
}

void Liveness::look_up_in_proc() {
  std::erase_if(without_pidfd_, [](Process* process) {
    const auto state = state_of(process->id_);
    if (state.life == Life::kEnded) {
      process->ended_by_ = state.signal;
    }
    return state.life == Life::kEnded;
  });
}

std::size_t Liveness::pidfds() const {
  const std::lock_guard lock(mutex_);
  return by_pidfd_.size();
}

}  // namespace lockstep::shm
