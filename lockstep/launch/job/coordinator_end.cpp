// How an attempt is concluded: with another one, or with the end of the job.
#include <algorithm>

#include "lockstep/base/process/stop_notice.h"
#include "lockstep/launch/job/coordinator.h"
#include "lockstep/launch/job/report.h"

namespace lockstep::launch {

void Coordinator::conclude_if_all_stopped() {
  const bool all = std::none_of(members_.begin(), members_.end(),
                                [](const auto& m) { return m.second.state == State::kRunning; });
  if (all && phase_ == Phase::kStopping) {
    conclude();
  }
}

void Coordinator::conclude() {
  auto& failures = outcome_.failures;
  if (outcome_.root_cause) {
    // The full story came with Stopped; a node that was lost meanwhile has told only the short one.
    auto root = std::find_if(failures.begin(), failures.end(), [&](const Failure& failure) {
      return failure.rank == outcome_.root_cause->rank;
    });
    if (root == failures.end()) {
      root = failures.insert(failures.begin(), *outcome_.root_cause);
    }
    std::rotate(failures.begin(), root, root + 1);
    prefer_reason(failures);
  }
  if (outcome_.end) {
    End ending = *outcome_.end;
    const auto unsaved = std::find_if(failures.begin(), failures.end(), stopped_unsaved);
    // The signal's own code would say that the same command goes on from here.
    if (ending.exit_code > 128 && unsaved != failures.end()) {
      ending.exit_code = kStoppedUnsaved;
      ending.text += "lockstep run: " + describe_worker(*unsaved, several()) +
                     " could not save its work (exit code 74)\n";
    }
    end(ending, list_failures(failures, several()) + ending.text);
  } else if (!outcome_.store_died.empty()) {
    conclude_without_store();
  } else if (stopped_in_order(failures.front())) {
    const std::string text =
        "lockstep run: the job stopped in order: " + describe_worker(failures.front(), several()) +
        ": " + describe_end(failures.front()) +
        "; nothing is restarted, and the same command goes on\n";
    end({kStoppedInOrder, text, std::nullopt}, list_failures(failures, several()) + text);
  } else if (can_restart()) {
    ++plan_.attempt;
    const std::string cause =
        describe_worker(failures.front(), several()) + ": " + describe_end(failures.front());
    start_attempt(cause);
  } else {
    end_with_report();
  }
}

// Workers fail because the store died: so this outranks their failures.
void Coordinator::conclude_without_store() {
  if (can_restart()) {
    ++plan_.attempt;
    const std::string cause = outcome_.store_died;
    start_attempt(cause);
    return;
  }
  const std::string text =
      "lockstep run: the job failed: " + outcome_.store_died + "; no worker's fault" +
      (outcome_.still_alive.empty() ? ": the same command can be started again\n" : "\n");
  end({1, text, std::nullopt},
      list_failures(outcome_.failures, several()) + why_no_restart() + text);
}

bool Coordinator::can_restart() const {
  return plan_.attempt < settings_.max_restarts && outcome_.may_restart &&
         outcome_.still_alive.empty();
}

std::string Coordinator::why_no_restart() const {
  if (plan_.attempt < settings_.max_restarts && !outcome_.still_alive.empty()) {
    return "lockstep run: no restart: " + outcome_.still_alive + "\n";
  }
  if (plan_.attempt < settings_.max_restarts && outcome_.asked_to_stop) {
    return "lockstep run: no restart: the job was asked to stop by SIGUSR1\n";
  }
  return "";
}

void Coordinator::end_with_report() {
  const Failure& root = outcome_.failures.front();
  const std::string headline =
      "lockstep run: the job failed; root cause: " + describe_worker(root, true) + ": " +
      describe_end(root) + "; the report is with " + name_of(kLocalPeer) + "\n";
  end({shell_code(root), headline, root},
      why_no_restart() + format_report(outcome_.failures, several()));
}

void Coordinator::end(const End& message, const std::optional<std::string>& leaders_text) {
  phase_ = Phase::kEnded;
  for (const auto& [id, member] : members_) {
    if (member.state != State::kLost) {
      const bool full = id == kLocalPeer && leaders_text;
      post(id, End{message.exit_code, full ? *leaders_text : message.text, message.root_cause});
    }
  }
}

}  // namespace lockstep::launch
