// Finds out when replicas that should be equal are not.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/module_state.h"

namespace lockstep::parallel {

// Fingerprints of the parameters go through the store: no collective is issued and nobody waits.
class ReplicaCheck {
 public:
  // Looks at the parameters in every `every`-th step; 0: never.
  ReplicaCheck(const Group& group, std::string key, std::uint64_t every);

  [[nodiscard]] bool is_on() const { return every_ > 0; }

  // At the begin of a step: leaves this rank's fingerprints for the others, if it is time.
  void begin_step(std::uint64_t step, const std::vector<Parameter>& parameters);
  // To be called after a collective of the same step; every rank has left its fingerprints before
  // that collective. Throws the same PeerError on all ranks: it names the first parameter that
  // differs, and the ranks that differ from the lowest rank. A rank that left nothing is not
  // compared.
  void end_step(const std::vector<Parameter>& parameters);

 private:
  // The ranks that left their fingerprints, each with one fingerprint per parameter.
  [[nodiscard]] std::vector<std::pair<int, std::vector<std::uint64_t>>> collect(
      std::uint64_t step, std::size_t count) const;
  [[nodiscard]] std::string key_of(std::uint64_t step, int rank) const;

  Group group_;
  std::string key_;
  std::uint64_t every_;
  std::uint64_t pending_ = 0;         // The step whose fingerprints are to be compared.
  std::deque<std::string> old_keys_;  // Others may still read the last ones.
};

}  // namespace lockstep::parallel
