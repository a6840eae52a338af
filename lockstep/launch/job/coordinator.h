// Runs a job: admits nodes, starts attempts, and decides how the job ends.
//
// Pure: messages go in, messages come out, and the caller says what time it is. The leader's own
// node is a peer like the others; a job on one node has only that peer. Nothing here touches a
// socket.
//
// There is no restart
//   - if max_restarts are used up;
//   - if a worker ended with one of final_codes;
//   - if a worker or a launcher of the attempt did not stop, or a node is lost or unable to go on;
//   - once somebody has asked the job to stop. Interrupted asks for sure. Noticed, SIGUSR1, may
//     mean something else to the program: it counts if a worker ends by it (75, 74, SIGUSR1 itself
//     or 138), or fails for whatever reason while the notice lasts.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/launch/protocol/message.h"

namespace lockstep::launch {

using PeerId = int;
inline constexpr PeerId kLocalPeer = 0;

struct Outgoing {
  PeerId peer = kLocalPeer;
  Message message;
};

struct JobSettings {
  Join leader;  // The leader's own node.
  std::string master_addr;
  int max_restarts = 0;
  std::set<int> final_codes = {};  // Exit codes of a worker that no restart follows.
  // How long after a Noticed a failure is taken for its consequence.
  std::chrono::milliseconds notice_lasts{};
  std::chrono::milliseconds join_timeout{};
  // How long nodes may take to stop: their own shutdown time and some slack.
  std::chrono::milliseconds stop_timeout{};
};

class Coordinator {
 public:
  // `open_store` gives the port of a fresh store each time an attempt begins.
  Coordinator(JobSettings settings, std::function<int()> open_store);

  // To be called once. A job on one node starts at once.
  void begin();
  void on_message(PeerId peer, const Message& message);
  // The connection is gone or was silent for too long. `why` completes "node 1 'host' is lost:
  // ...".
  void on_lost(PeerId peer, const std::string& why);
  // Returns whether workers are stopped for it: they had not been told to before.
  bool on_store_died(const std::string& how);
  // The leader's own launcher ends at once, for this reason.
  void give_up(const std::string& why);
  // Ends the job at the join timeout, and the waiting for nodes that do not stop.
  void on_time();

  // What to send now, in order. After an End nothing follows for that peer.
  std::vector<Outgoing> take_outgoing();
  // Whether the peer has been admitted; others can be dropped silently.
  [[nodiscard]] bool is_member(PeerId peer) const { return members_.contains(peer); }
  // "node 1 of 2", for messages; empty once all are here.
  [[nodiscard]] std::string missing_nodes() const;
  [[nodiscard]] bool ended() const { return phase_ == Phase::kEnded; }

 private:
  enum class Phase { kJoining, kRunning, kStopping, kEnded };
  enum class State { kRunning, kDone, kStopped, kLost };
  struct Member {
    Join join;
    int rank = -1;
    State state = State::kRunning;
  };
  // What ended an attempt.
  struct Outcome {
    // The first that was told; conclude() may prefer another that tells a reason.
    std::optional<Failure> root_cause;
    std::optional<End> end;  // The end of the job, whatever the workers did.
    std::string store_died;  // How, if that ended it; empty: it did not.
    bool may_restart = true;
    std::optional<Deadline> notice;  // Until then it counts.
    bool asked_to_stop = false;      // By a notice that counts.
    std::string still_alive;         // Who or what of the attempt did not stop; empty: nothing.
    std::vector<Failure> failures;
  };

  void on_join(PeerId peer, const Join& join);
  void on_noticed(const Noticed& noticed);
  void on_failed(PeerId peer, const Failed& failed);
  void on_unable(PeerId peer, const Unable& unable);
  void on_stopped(PeerId peer, const Stopped& stopped);
  void on_done(PeerId peer, const Done& done);
  void on_interrupted(PeerId peer, const Interrupted& interrupted);

  void post(PeerId peer, Message message);
  void rank_nodes();
  void start_attempt(const std::string& why);
  void stop_others(PeerId but, int signal);
  void conclude_if_all_stopped();
  void conclude();
  void conclude_without_store();
  // Only the leader's node shows the details: if the output of all nodes goes to one place, one
  // report is enough.
  void end(const End& message, const std::optional<std::string>& leaders_text = std::nullopt);
  void end_with_report();
  [[nodiscard]] std::string why_no_restart() const;  // A line for the user; empty if none is owed.
  void abandon(const std::string& text);
  [[nodiscard]] std::vector<Join> joins() const;
  [[nodiscard]] std::string name_of(PeerId peer) const;
  [[nodiscard]] bool is_ending() const;
  [[nodiscard]] bool has_notice() const { return outcome_.notice && !outcome_.notice->passed(); }
  // Once all have stopped.
  [[nodiscard]] bool can_restart() const;
  [[nodiscard]] bool several() const { return settings_.leader.nodes > 1; }

  JobSettings settings_;
  std::function<int()> open_store_;
  Phase phase_ = Phase::kJoining;
  std::map<PeerId, Member> members_;
  JobPlan plan_;
  Outcome outcome_;
  Deadline deadline_;  // For joining or for stopping.
  std::vector<Outgoing> outgoing_;
};

}  // namespace lockstep::launch
