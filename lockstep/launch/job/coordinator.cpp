#include "lockstep/launch/job/coordinator.h"

#include <algorithm>
#include <csignal>

#include "lockstep/base/process/tree.h"
#include "lockstep/base/text/text.h"
#include "lockstep/launch/job/node_ranks.h"
#include "lockstep/launch/job/report.h"

namespace lockstep::launch {

Coordinator::Coordinator(JobSettings settings, std::function<int()> open_store)
    : settings_(std::move(settings)),
      open_store_(std::move(open_store)),
      deadline_(Deadline::in(settings_.join_timeout)) {
  members_[kLocalPeer].join = settings_.leader;
}

void Coordinator::begin() {
  if (!several()) {
    rank_nodes();
  }
}

std::vector<Outgoing> Coordinator::take_outgoing() { return std::exchange(outgoing_, {}); }

void Coordinator::post(PeerId peer, Message message) {
  Outgoing& entry = outgoing_.emplace_back();
  entry.peer = peer;
  entry.message = std::move(message);
}

void Coordinator::on_message(PeerId peer, const Message& message) {
  if (phase_ == Phase::kEnded) {
    return;
  }
  if (const auto* join = std::get_if<Join>(&message)) {
    on_join(peer, *join);
    return;
  }
  if (!is_member(peer)) {
    return;
  }
  if (const auto* noticed = std::get_if<Noticed>(&message)) {
    on_noticed(*noticed);
  } else if (const auto* failed = std::get_if<Failed>(&message)) {
    on_failed(peer, *failed);
  } else if (const auto* unable = std::get_if<Unable>(&message)) {
    on_unable(peer, *unable);
  } else if (const auto* stopped = std::get_if<Stopped>(&message)) {
    on_stopped(peer, *stopped);
  } else if (const auto* done = std::get_if<Done>(&message)) {
    on_done(peer, *done);
  } else if (const auto* interrupted = std::get_if<Interrupted>(&message)) {
    on_interrupted(peer, *interrupted);
  }
}

void Coordinator::on_join(PeerId peer, const Join& join) {
  if (is_member(peer)) {
    return;
  }
  if (is_ending()) {
    post(peer, Refused{"the job that it leads is about to end", true});
    return;
  }
  const auto objection = object_to(join, joins());
  if (!objection) {
    members_[peer].join = join;
    if (static_cast<int>(members_.size()) == settings_.leader.nodes) {
      rank_nodes();
    }
    return;
  }
  post(peer, Refused{objection->reason, false});
  if (!objection->foreign && phase_ == Phase::kJoining) {
    end({1, "lockstep run: " + objection->reason + "\n", std::nullopt});
  }
}

void Coordinator::on_noticed(const Noticed& noticed) {
  if (noticed.attempt != plan_.attempt ||
      (phase_ != Phase::kRunning && phase_ != Phase::kStopping)) {
    return;
  }
  outcome_.notice = Deadline::in(settings_.notice_lasts);
  outcome_.asked_to_stop = outcome_.asked_to_stop || phase_ == Phase::kStopping;
  outcome_.may_restart = outcome_.may_restart && !outcome_.asked_to_stop;
}

void Coordinator::on_failed(PeerId peer, const Failed& failed) {
  if (failed.attempt != plan_.attempt ||
      (phase_ != Phase::kRunning && phase_ != Phase::kStopping)) {
    return;
  }
  if (!outcome_.root_cause) {
    outcome_.root_cause = failed.failure;
  }
  const bool in_order = stopped_in_order(*outcome_.root_cause);
  // One that was asked to stop and could not save would be asked and fail again.
  const bool is_final = stopped_unsaved(*outcome_.root_cause) ||
                        (outcome_.root_cause->signal == 0 &&
                         settings_.final_codes.contains(outcome_.root_cause->exit_code));
  outcome_.asked_to_stop =
      outcome_.asked_to_stop || ended_by_notice(*outcome_.root_cause) || has_notice();
  outcome_.may_restart = outcome_.may_restart && !in_order && !is_final && !outcome_.asked_to_stop;
  if (phase_ == Phase::kRunning) {
    stop_others(peer, in_order ? 0 : SIGTERM);
  }
}

void Coordinator::on_unable(PeerId peer, const Unable& unable) {
  if (unable.attempt != plan_.attempt) {
    return;
  }
  if (!outcome_.end) {
    outcome_.end = End{1,
                       "lockstep run: the job failed: " + (several() ? name_of(peer) + ": " : "") +
                           unable.why + "\n",
                       std::nullopt};
  }
  if (phase_ == Phase::kJoining) {
    end(*outcome_.end);
  } else if (phase_ == Phase::kRunning) {
    stop_others(peer, SIGTERM);
  }
}

void Coordinator::on_stopped(PeerId peer, const Stopped& stopped) {
  if (stopped.attempt != plan_.attempt || phase_ == Phase::kJoining) {
    return;
  }
  members_[peer].state = State::kStopped;
  if (!stopped.stuck.empty()) {
    outcome_.still_alive = (several() ? name_of(peer) + ": " : "") + stopped.stuck;
  }
  outcome_.failures.insert(outcome_.failures.end(), stopped.failures.begin(),
                           stopped.failures.end());
  conclude_if_all_stopped();
}

void Coordinator::on_done(PeerId peer, const Done& done) {
  if (done.attempt != plan_.attempt || members_[peer].state != State::kRunning) {
    return;
  }
  members_[peer].state = State::kDone;
  const bool all = std::all_of(members_.begin(), members_.end(),
                               [](const auto& m) { return m.second.state == State::kDone; });
  if (all && phase_ == Phase::kRunning) {
    end({0, "", std::nullopt});
  }
  conclude_if_all_stopped();
}

void Coordinator::on_interrupted(PeerId peer, const Interrupted& interrupted) {
  outcome_.may_restart = false;
  if (!outcome_.root_cause && !outcome_.end && outcome_.store_died.empty()) {
    const std::string who = peer == kLocalPeer ? "" : " on " + name_of(peer);
    outcome_.end =
        End{128 + interrupted.signal,
            "lockstep run: the job was ended by " + signal_name(interrupted.signal) + who + "\n",
            std::nullopt};
  }
  const bool in_order = outcome_.root_cause && stopped_in_order(*outcome_.root_cause);
  if (phase_ == Phase::kJoining) {
    end(*outcome_.end);
  } else if (phase_ == Phase::kRunning || (phase_ == Phase::kStopping && in_order)) {
    // The sender too: it may have been between two attempts, and about to start the next one.
    stop_others(-1, interrupted.signal);
    conclude_if_all_stopped();
  }
}

void Coordinator::on_lost(PeerId peer, const std::string& why) {
  if (!is_member(peer) || phase_ == Phase::kEnded) {
    return;
  }
  members_[peer].state = State::kLost;
  abandon(name_of(peer) + " is lost: " + why);
}

// The store holds nothing that workers would miss in another attempt, which gets a new one.
bool Coordinator::on_store_died(const std::string& how) {
  if (phase_ != Phase::kRunning) {
    return false;
  }
  outcome_.store_died = "the store process of the job died: " + how;
  outcome_.asked_to_stop = outcome_.asked_to_stop || has_notice();
  outcome_.may_restart = outcome_.may_restart && !outcome_.asked_to_stop;
  stop_others(-1, SIGTERM);
  conclude_if_all_stopped();
  return true;
}

// A node does not vanish because a worker failed, but workers fail because a node vanished: so this
// outranks a failure that was seen first.
void Coordinator::abandon(const std::string& text) {
  if (!outcome_.end) {
    outcome_.end = End{1, "lockstep run: the job failed: " + text + "\n", std::nullopt};
  }
  if (phase_ == Phase::kJoining) {
    end(*outcome_.end);
  } else if (phase_ == Phase::kRunning) {
    stop_others(-1, SIGTERM);
  }
  conclude_if_all_stopped();
}

void Coordinator::on_time() {
  if (!deadline_.passed()) {
    return;
  }
  if (phase_ == Phase::kJoining && several()) {
    end({1,
         "lockstep run: " + missing_nodes() + " did not come within " + to_text(deadline_.total()) +
             "\n",
         std::nullopt});
  } else if (phase_ == Phase::kStopping) {
    // A node that cannot stop its workers must not hold up the end of the others.
    for (const auto& [id, member] : members_) {
      if (member.state == State::kRunning) {
        outcome_.still_alive =
            name_of(id) + " did not stop its workers within " + to_text(deadline_.total());
      }
    }
    conclude();
  }
}

void Coordinator::give_up(const std::string& why) {
  if (phase_ != Phase::kEnded) {
    members_[kLocalPeer].state = State::kLost;
    end({1, "lockstep run: the job failed: " + name_of(kLocalPeer) + ": " + why + "\n",
         std::nullopt});
  }
}

// No other attempt will follow.
bool Coordinator::is_ending() const {
  return phase_ == Phase::kStopping &&
         (outcome_.end || !outcome_.may_restart || plan_.attempt >= settings_.max_restarts);
}

void Coordinator::rank_nodes() {
  const auto ranks = assign_node_ranks(joins());
  plan_.nodes.resize(ranks.size());
  std::size_t i = 0;
  for (auto& [id, member] : members_) {
    member.rank = ranks[i++];
    plan_.nodes[static_cast<std::size_t>(member.rank)] = member.join.node;
  }
  plan_.run_id = settings_.leader.run_id;
  plan_.master_addr = settings_.master_addr;
  plan_.max_restarts = settings_.max_restarts;
  start_attempt("");
}

void Coordinator::start_attempt(const std::string& why) {
  outcome_ = {};
  phase_ = Phase::kRunning;
  plan_.master_port = open_store_();
  for (auto& [id, member] : members_) {
    member.state = State::kRunning;
    post(id, Start{plan_, member.rank, why});
  }
}

void Coordinator::stop_others(PeerId but, int signal) {
  phase_ = Phase::kStopping;
  deadline_ = Deadline::in(settings_.stop_timeout);
  for (const auto& [id, member] : members_) {
    if (id != but && member.state == State::kRunning) {
      post(id, Stop{plan_.attempt, signal});
    }
  }
}

// The leader's own node is the first.
std::vector<Join> Coordinator::joins() const {
  std::vector<Join> joins;
  joins.reserve(members_.size());
  for (const auto& [id, member] : members_) {
    joins.push_back(member.join);
  }
  return joins;
}

std::string Coordinator::name_of(PeerId peer) const {
  const Member& member = members_.at(peer);
  Join named = member.join;
  named.node_rank = member.rank >= 0 ? member.rank : named.node_rank;
  return describe_node(named);
}

std::string Coordinator::missing_nodes() const { return describe_missing(joins()); }

}  // namespace lockstep::launch
