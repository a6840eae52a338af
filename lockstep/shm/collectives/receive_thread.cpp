#include "lockstep/shm/collectives/receive_thread.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>

#include "lockstep/base/error.h"
#include "lockstep/base/keep_forever.h"

namespace lockstep::shm {
namespace {

// How long it goes unnoticed that a source has ended, or that a receive is late.
constexpr std::chrono::milliseconds kReceiveLook{50};

}  // namespace

struct ReceiveThread::Pending {
  std::shared_ptr<Receipt> receipt;
  Deadline deadline;
  std::function<void()> tell;
};

struct ReceiveThread::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::list<Pending> pending;
  std::atomic<bool> came{false};  // One that the thread has not seen.
  bool stop = false;
};

ReceiveThread::ReceiveThread(Team& team, Mailbox& mailbox)
    : team_(team), mailbox_(mailbox), state_(std::make_shared<State>()) {}

ReceiveThread::~ReceiveThread() {
  if (!thread_.joinable()) {
    return;
  }
  if (!fork_guard_.in_owner()) {
    keep_forever(std::move(thread_));
    keep_forever(state_);
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->came = true;
  }
  state_->changed.notify_all();
  team_.watch().ring(team_.rank());
  if (std::this_thread::get_id() == thread_.get_id()) {
    // In a `tell`: nobody can join itself. The thread ends when that returns, and touches only the
    // state, which it keeps.
    thread_.detach();
  } else {
    thread_.join();
  }
  const auto state = state_;
  while (tell_one(*state, mailbox_)) {
  }
}

void ReceiveThread::when_done(std::shared_ptr<Receipt> receipt, Deadline deadline,
                              std::function<void()> tell) {
  team_.watch().require_member();
  {
    const std::lock_guard lock(state_->mutex);
    state_->pending.push_back({std::move(receipt), deadline, std::move(tell)});
    state_->came = true;
    if (!thread_.joinable()) {
      thread_ = std::thread(
          [state = state_, &team = team_, &mailbox = mailbox_] { tend(*state, team, mailbox); });
    }
  }
  state_->changed.notify_all();
  team_.watch().ring(team_.rank());
}

// Tells of one that is done; false if there is none.
bool ReceiveThread::tell_one(State& state, Mailbox& mailbox) {
  std::list<Pending> done;
  {
    const std::lock_guard lock(state.mutex);
    const auto found =
        std::find_if(state.pending.begin(), state.pending.end(), [&](const Pending& one) {
          if (mailbox.is_done(*one.receipt)) {
            return true;
          }
          if (one.deadline.passed()) {
            mailbox.complete(*one.receipt, one.deadline);
            return true;
          }
          return false;
        });
    if (found == state.pending.end()) {
      return false;
    }
    done.splice(done.begin(), state.pending, found);
  }
  try {
    done.front().tell();
  } catch (...) {  // NOLINT(bugprone-empty-catch): whoever wants to know catches it there.
  }
  return true;
}

void ReceiveThread::tend(State& state, Team& team, Mailbox& mailbox) {
  while (true) {
    std::vector<std::shared_ptr<Receipt>> awaited;
    {
      std::unique_lock lock(state.mutex);
      state.changed.wait(lock, [&] { return state.stop || !state.pending.empty(); });
      if (state.stop) {
        return;
      }
      state.came = false;
      for (const auto& one : state.pending) {
        awaited.push_back(one.receipt);
      }
    }
    const auto next_look = Deadline::in(kReceiveLook);
    const auto ready = [&] {
      return state.came || next_look.passed() ||
             std::any_of(awaited.begin(), awaited.end(),
                         [&](const auto& receipt) { return mailbox.has_come(*receipt); });
    };
    const auto nobody = [] { return std::vector<int>(); };
    try {
      team.watch().wait({.what = [] { return std::string("recv"); },
                         .ready = ready,
                         .awaited = nobody,
                         .needed = nobody,
                         .deadline = Deadline::in(std::chrono::hours(1))},
                        Watch::Then::kGoOn);
    } catch (const PeerError&) {  // The group has ended, which is a failure of each receive.
    }
    bool told = true;
    while (told) {
      {
        const std::lock_guard lock(state.mutex);
        if (state.stop) {
          return;  // Perhaps the team and the mailbox are gone.
        }
      }
      told = tell_one(state, mailbox);
    }
  }
}

}  // namespace lockstep::shm
