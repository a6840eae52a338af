// What launchers of one job tell each other, as values and as JSON text.
//
// A connection starts with a magic word and a version in each direction (frame.h); then every
// message is one JSON object. Members send Join, Noticed, Failed, Unable, Stopped, Done
// and Interrupted; the leader answers with Refused, Start, Stop and End; both send Heartbeat.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/launch/protocol/failure.h"
#include "lockstep/launch/protocol/rank_plan.h"

namespace lockstep::launch {

inline constexpr int kMostNodes = 256;  // A plan of so many fits into one message.

struct Join {
  std::string run_id;
  int nodes = 1;       // The --nnodes it was started with.
  int node_rank = -1;  // -1: the leader may choose.
  NodeInfo node;
  int pid = 0;
};

struct Refused {
  std::string reason;
  bool ending = false;  // The job here is about to end; whoever leads the next one may want you.
};

struct Start {
  JobPlan plan;
  int node_rank = 0;
  std::string why;  // For the user, when this is a restart.
};

struct Heartbeat {};

// The launcher of the node got SIGUSR1 and passed it on to the workers of this attempt, which may
// take it as a request to stop. Workers of the next attempt will not get it.
struct Noticed {
  int attempt = 0;
};

// The first worker of a node to fail; sent at once, with no texts.
struct Failed {
  int attempt = 0;
  Failure failure;
};

// The launcher of the node cannot go on with the attempt, whatever its workers do.
struct Unable {
  int attempt = 0;
  std::string why;
};

struct Stop {
  int attempt = 0;
  int signal = 0;  // 0: workers get none. They have their shutdown time to end by themselves.
};

// All workers of the node are gone, and not all of them succeeded.
struct Stopped {
  int attempt = 0;
  std::vector<Failure> failures;
  std::string stuck;  // What could not be killed, if anything: then there can be no other attempt.
};

// All workers of the node ended with 0.
struct Done {
  int attempt = 0;
};

struct Interrupted {
  int signal = 0;
};

struct End {
  int exit_code = 0;
  std::string text;  // For the user; empty after a success.
  std::optional<Failure> root_cause = std::nullopt;
};

using Message = std::variant<Join, Refused, Start, Heartbeat, Noticed, Failed, Unable, Stop,
                             Stopped, Done, Interrupted, End>;

// Never longer than kMostMessageBytes: long texts and lists are cut.
std::string encode(const Message& message);

// Removes control characters from texts, and line ends from names. Throws ProtocolError for
// anything that encode() does not write.
Message decode(std::string_view json);

inline constexpr std::size_t kMostMessageBytes = std::size_t{64} << 10;

}  // namespace lockstep::launch
