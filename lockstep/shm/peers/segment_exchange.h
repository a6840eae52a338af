// How the ranks of a group come to map each other's segments.
//
// Each rank posts the name of a Unix socket and a secret on a board that all see (a c10d store).
// Descriptors travel over the sockets. Both ends check that the other one runs as the same user,
// and the listener also checks the secret. Strangers are turned away, and nothing more is read
// from them.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/process/state.h"
#include "lockstep/shm/segments/segment.h"

namespace lockstep::shm {

// Short texts by key. read() waits until some rank has posted the key.
class Board {
 public:
  Board() = default;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  virtual ~Board() = default;
  virtual void post(const std::string& key, const std::string& text) = 0;
  virtual std::string read(const std::string& key, Deadline deadline) = 0;
};

struct Peer {
  ProcessId process;
  std::string host;
  int number = -1;  // In the job, for errors; -1: as in the group.
};

struct Ring {
  std::vector<Segment> segments;  // By rank, this rank's among them.
  std::vector<Peer> peers;
};

// All ranks call it. Throws UsageError if ranks are on different hosts, PeerError, naming a rank,
// if one does not come in time, ends, or speaks another version.
Ring exchange_segments(Segment own, int rank, int size, Board& board, Deadline deadline);

}  // namespace lockstep::shm
