// Starts ranks from inside a program.
#pragma once

#include <functional>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep {

// One rank's exception or death, as spawn() reports it.
class SpawnError : public PeerError {
 public:
  SpawnError(int rank, const std::string& message) : PeerError(message), rank_(rank) {}
  [[nodiscard]] int rank() const { return rank_; }

 private:
  int rank_;
};

// Forks `nprocs` ranks, runs fn(rank) in each and joins them; init_process_group() inside
// finds its rank and its peers by itself.
//
// Must come first in a program: fork() copies only the calling thread, so a process that
// already has threads or has used CUDA gets a UsageError that says so. The first rank that
// throws or dies ends all others; SpawnError carries its rank and message. If this process
// dies, so do the ranks.
void spawn(int nprocs, const std::function<void(int rank)>& fn);

}  // namespace lockstep
