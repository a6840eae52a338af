#include "lockstep/parallel/step_errors.h"

#include <memory>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/peer_error.h"
#include "lockstep/comm/rendezvous/store_post.h"
#include "lockstep/comm/store_call.h"
#include "lockstep/parallel/checks/same_hook.h"
#include "lockstep/parallel/hooks/hook_error.h"

namespace lockstep::parallel {
namespace {

// The store must not take long when an error is already known. More than post() waits.
constexpr std::chrono::seconds kStorePatience{3};

std::string name_of(const Progress& now) {
  const auto step = std::to_string(now.step);
  switch (now.phase) {
    case Phase::kForward:
      return "forward of step " + step;
    case Phase::kBackward:
      return "backward of step " + step;
    case Phase::kBetweenSteps:
      return "after step " + step;
    case Phase::kSaving:
      return "saving the checkpoint of step " + step;
    case Phase::kFailed:
      return "failed in or after step " + step;
    case Phase::kUnknown:
      break;
  }
  return "not yet trained,";
}

// What rank `number` left under `key`, for a rank in step `step`.
std::string left_by(const std::string& number, c10d::Store& store, const std::string& key,
                    std::uint64_t step) {
  const auto ended = key + "/ended/" + number;
  const auto failed = key + "/failed/" + number;
  const auto reason = store.check({failed}) ? store.get_to_str(failed) : "";
  if (!reason.empty()) {
    return "; rank " + number + " had failed: " + reason;
  }
  if (!store.check({ended})) {
    return "";
  }
  const auto steps = store.get_to_str(ended);
  auto text = "; rank " + number + " ended after " + steps + " steps";
  if (steps == std::to_string(step)) {
    return text;
  }
  return text + ", this rank is in its step " + std::to_string(step) +
         ": give every rank the same number of batches (DistributedSampler pads or drops)";
}

}  // namespace

StepErrors::StepErrors(const Group& group, std::string key) : group_(group), key_(std::move(key)) {}

StepErrors::~StepErrors() {
  if (!lost_a_peer_ && std::uncaught_exceptions() == 0) {
    leave_for_others("ended", std::to_string(now_.step));
  }
}

void StepErrors::enter(Phase phase, std::uint64_t step) {
  now_ = {.phase = phase, .step = step};
  group_.report(now_);
  if (phase == Phase::kBetweenSteps && std::exchange(failed_, false)) {
    leave_for_others("failed", "");  // The program went on, and well.
  }
}

std::string StepErrors::what() const {
  return "DistributedDataParallel, " + name_of(now_) + " on rank " + std::to_string(group_.rank()) +
         " of " + std::to_string(group_.size());
}

void StepErrors::explain() {
  if (from_hook_ && std::current_exception() == from_hook_) {
    throw;
  }
  try {
    try {
      throw;
    } catch (const HookError&) {
      throw;
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {
      comm::rethrow_as_peer_error(what());
    }
  } catch (const PeerError& error) {
    // Calls may be nested: the reasons of others are said once.
    const bool said = std::exchange(lost_a_peer_, true);
    throw PeerError(with_place(error.what()) + (said ? "" : left_by_others()));
  } catch (const UsageError& error) {
    fail(with_place(error.what()));
    throw UsageError(with_place(error.what()));
  } catch (const HookError& error) {
    fail(with_place(error.what()));
    from_hook_ = error.cause() ? error.cause()
                               : std::make_exception_ptr(UsageError(
                                     with_place(error.what()) + "; derive it from std::exception"));
    std::rethrow_exception(from_hook_);
  } catch (const std::exception& error) {
    fail(error.what());
    throw;
  }
}

std::string StepErrors::with_place(const std::string& text) const {
  return text.starts_with("DistributedDataParallel") ? text : what() + ": " + text;
}

void StepErrors::fail(const std::string& reason) noexcept {
  failed_ = true;
  leave_for_others("failed", reason);
}

void StepErrors::leave_for_others(const std::string& kind, const std::string& text) noexcept {
  if (!group_.is_distributed()) {
    return;
  }
  try {
    comm::within(kStorePatience, [store = group_.store(), text,
                                  key = key_ + "/" + kind + "/" + std::to_string(group_.rank())] {
      comm::post(*store, key, text);
    });
  } catch (const std::exception&) {  // The group is gone: nobody can read it.
  }
}

std::string StepErrors::left_by_others() noexcept {
  try {
    const auto text = std::make_shared<std::string>();
    const bool in_time =
        comm::within(kStorePatience, [text, store = group_.store(), key = key_, step = now_.step,
                                      self = RankOf{group_.rank(), group_.size()}] {
          for (int rank = 0; rank < self.size; ++rank) {
            *text += rank == self.rank ? "" : left_by(std::to_string(rank), *store, key, step);
          }
          const auto hooks = hook_difference(*store, key, self);
          *text += hooks.empty() ? "" : "; " + hooks;
        });
    return in_time ? *text : "";
  } catch (const std::exception&) {  // The group is gone.
    return "";
  }
}

}  // namespace lockstep::parallel
