#include "lockstep/launch/node/local_node.h"

#include <unistd.h>

#include <csignal>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/process/tree.h"
#include "lockstep/base/text/text.h"
#include "lockstep/launch/time_limits.h"

namespace lockstep::launch {
namespace {

constexpr int kNoSignal = 0;

constexpr const char* kSecondKills = "a second signal kills at once\n";
// A worker counts for itself, and SIGUSR1 was its first.
constexpr const char* kSecondForWorkers =
    "those that stop after SIGUSR1 may take it for the second signal and end at once; another one "
    "kills at once\n";

}  // namespace

LocalNode::LocalNode(const Context& context, EventLoop& loop, Consoles& consoles, NodeHooks hooks)
    : context_(context),
      loop_(loop),
      consoles_(consoles),
      hooks_(std::move(hooks)),
      deadline_(Deadline::in({})) {}

void LocalNode::start(const Start& command) {
  if (!command.why.empty()) {
    consoles_.err.say("lockstep run: " + command.why + "; restarting all workers (restart " +
                      std::to_string(command.plan.attempt) + " of " +
                      std::to_string(command.plan.max_restarts) + ")\n");
  }
  attempt_ = command.plan.attempt;
  workers_ = std::make_unique<WorkerGroup>(context_, loop_, consoles_, command);
  phase_ = Phase::kRunning;
  said_that_we_wait_ = false;
  noticed_ = held_.contains(SIGUSR1);
  try {
    prepare_and_start();
  } catch (const Error& error) {
    hooks_.report(Unable{attempt_, error.what()});
    begin_stop(SIGTERM);
  }
}

void LocalNode::prepare_and_start() {
  if (!stuck_.empty()) {
    throw IoError("no worker was started: " + stuck_);
  }
  if (const auto prepare = std::exchange(hooks_.prepare, nullptr)) {
    prepare();
  }
  workers_->start();
  for (const int signal : std::exchange(held_, {})) {
    workers_->pass_on(signal);
  }
}

void LocalNode::stop(const Stop& command) {
  if (command.attempt != attempt_) {
    return;
  }
  if (phase_ == Phase::kRunning) {
    begin_stop(command.signal);
  } else if (phase_ == Phase::kStopping && stops_in_order_ && command.signal != kNoSignal) {
    stops_in_order_ = false;
    workers_->signal(command.signal);
  }
}

void LocalNode::interrupt(int signal) {
  said_that_we_wait_ = true;
  const int running = workers_ ? workers_->running() : 0;
  // Local rank 0 may write to the terminal itself, and have a progress line there.
  const bool in_line = context_.options.logs.named_by_worker && ::isatty(consoles_.err.fd()) == 1;
  consoles_.err.say((in_line ? "\nlockstep run: " : "lockstep run: ") + signal_name(signal) +
                    " received: " +
                    (running == 0 ? "no worker runs here\n"
                                  : "passed on to " + counted(running, "worker") + ", with " +
                                        to_text(context_.options.shutdown_timeout) + " to end; " +
                                        (noticed_ ? kSecondForWorkers : kSecondKills)));
  hooks_.report(Interrupted{signal});
  if (phase_ == Phase::kRunning) {
    begin_stop(signal);
  } else if (phase_ == Phase::kStopping) {
    workers_->signal(signal);
  }
}

void LocalNode::pass_on(int signal) {
  if (phase_ == Phase::kRunning || phase_ == Phase::kStopping) {
    workers_->pass_on(signal);
    noticed_ = noticed_ || signal == SIGUSR1;
  }
  // Those that do not hold it back would end by it before they can ask for it.
  if (phase_ != Phase::kRunning && context_.signals->workers_hold_back(signal)) {
    held_.insert(signal);
  } else if (signal == SIGUSR1 && attempt_ >= 0) {
    hooks_.report(Noticed{attempt_});
  }
}

void LocalNode::begin_stop(int signal) {
  phase_ = Phase::kStopping;
  deadline_ = Deadline::in(context_.options.shutdown_timeout);
  stops_in_order_ = signal == kNoSignal;
  if (!stops_in_order_) {
    workers_->signal(signal);
  }
  finish_if_all_ended();
}

void LocalNode::on_exits(const std::vector<ChildExit>& exits) {
  if (!workers_ || phase_ == Phase::kIdle) {
    return;
  }
  workers_->on_exits(exits);
  const Failure* first = workers_->first_failure();
  if (phase_ == Phase::kRunning && first != nullptr) {
    hooks_.report(Failed{attempt_, *first});
    begin_stop(stopped_in_order(*first) ? kNoSignal : SIGTERM);
  } else {
    finish_if_all_ended();
  }
}

void LocalNode::on_time() {
  if (!busy()) {
    return;
  }
  if (phase_ == Phase::kStopping && !said_that_we_wait_ &&
      deadline_.total() - deadline_.remaining() > kSilence) {
    said_that_we_wait_ = true;
    consoles_.err.say("lockstep run: the job is being stopped; waiting up to " +
                      to_text(deadline_.total()) + " for " + workers_->running_ranks() +
                      " to end\n");
  }
  if (!deadline_.passed()) {
    return;
  }
  if (phase_ == Phase::kStopping) {
    consoles_.err.say("lockstep run: " + workers_->running_ranks() + " did not end within " +
                      to_text(deadline_.total()) + ": killed\n");
    phase_ = Phase::kKilling;
    deadline_ = Deadline::in(kWorkersEndIn);
    workers_->signal(SIGKILL);
  } else {
    stuck_ = workers_->running_ranks() + " cannot be killed (stuck in the kernel?)";
    consoles_.err.say("lockstep run: " + stuck_ + "; going on without\n");
    finish();
  }
}

void LocalNode::update_watches() {
  if (workers_) {
    workers_->update_watches();
  }
}

void LocalNode::finish_if_all_ended() {
  if (workers_->running() == 0) {
    finish();
  }
}

void LocalNode::finish() {
  const bool well = phase_ == Phase::kRunning;
  phase_ = Phase::kIdle;
  if (!hooks_.sweep() && stuck_.empty()) {
    stuck_ = "what workers had started cannot be killed (stuck in the kernel?)";
  }
  workers_->drain(Deadline::in(kDrainPatience));
  if (well) {
    if (const auto full = workers_->full_log(); !full.empty()) {
      consoles_.err.say("lockstep run: " + full + "\n");
    }
    hooks_.report(Done{attempt_});
  } else {
    hooks_.report(Stopped{attempt_, workers_->failures(), stuck_});
  }
}

}  // namespace lockstep::launch
