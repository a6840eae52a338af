// Why a group over several hosts ended: one reason for all ranks.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/backends/hosts/host_map.h"

namespace lockstep::comm {

// What a rank knows of the others when it fails.
struct Witness {
  int rank = 0;
  std::vector<std::string> silent = {};  // Addresses that do not answer.
  std::vector<int> late = {};            // Hosts that had not begun the collective at its deadline.
};

// What this error says of the group: which host is gone, which are late, or what went wrong on this
// rank alone.
PeerError reason_of(const std::exception& error, const HostMap& map, const Witness& witness);

// The reason that all ranks share, in the store. Thread-safe. Do not use it in a fork: its thread
// does not exist there.
//
// A store whose own host is gone or stopped does not answer, so a thread asks it and the callers
// wait for a second at most.
class SharedReason {
 public:
  explicit SharedReason(c10::intrusive_ptr<c10d::Store> store);
  // Joins the thread, unless the store still owes it an answer after that second.
  ~SharedReason();
  SharedReason(const SharedReason&) = delete;
  SharedReason& operator=(const SharedReason&) = delete;

  // The reason that the first rank of the group gave: this one if no other came before, or if the
  // store does not answer.
  PeerError first(const PeerError& reason);
  // Whether a rank has given one already. False also if the store does not answer, and from then on
  // until it does. A store that has failed is not asked again.
  bool is_given();

 private:
  struct State;  // Shared with the thread, which may outlive this.
  using Question = std::function<void(c10d::Store&)>;

  // What it answers, or `otherwise` if it throws or takes too long.
  template <class Answer>
  Answer ask(const Answer& otherwise, const std::function<Answer(c10d::Store&)>& question);
  void post(Question question, Deadline deadline);
  static void run(State& state);

  std::shared_ptr<State> state_;
  std::thread thread_;  // Under the lock of the state; started by the first question.
};

}  // namespace lockstep::comm
