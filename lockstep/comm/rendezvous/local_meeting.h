// Ranks of one host find each other under a name, without a port that someone must choose.
//
// The name is an abstract Unix socket: it vanishes with its owner, leaves no
// file, is private to this network namespace, and only processes of the same
// user are answered.
#pragma once

#include <string>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"

namespace lockstep::comm {

class LocalMeeting {
 public:
  // Rank 0 opens the meeting. Throws UsageError if another job holds the name.
  static LocalMeeting open(const std::string& name);

  // Tells the port to every other rank; returns when all have it. Throws PeerError
  // at the deadline that lists the ranks which did not come.
  void announce(int port, int world_size, Deadline deadline);

  // Every other rank: the port, as soon as rank 0 announces it. Throws PeerError at the deadline.
  static int ask(const std::string& name, int rank, Deadline deadline);

 private:
  explicit LocalMeeting(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;
};

}  // namespace lockstep::comm
