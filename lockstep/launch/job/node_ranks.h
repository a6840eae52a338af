// Who gets which node rank, decided by the leader once all nodes have joined.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/launch/protocol/message.h"

namespace lockstep::launch {

// "node2" before "node10": runs of digits compare as numbers.
bool natural_less(std::string_view a, std::string_view b);

// Why `candidate` cannot join the job of `members`, of which the leader is the first; nothing if it
// can. `foreign` means that it belongs to another job, so ours need not end.
struct Objection {
  std::string reason;
  bool foreign = false;
};
std::optional<Objection> object_to(const Join& candidate, const std::vector<Join>& members);

// The node rank of each member. `members` are all of them, the leader first. A rank that a member
// asked for is kept. The leader takes the lowest rank left; the others follow in natural order of
// host, then pid.
std::vector<int> assign_node_ranks(const std::vector<Join>& members);

// "node 1 of 2", or "1 of 2 nodes (present: ...)" if members gave no ranks; empty when all of the
// leader's --nnodes are here. The leader is the first.
std::string describe_missing(const std::vector<Join>& members);

// "node 1 'hostb'", or "a node without --node-rank on 'hostb'".
std::string describe_node(const Join& join);

}  // namespace lockstep::launch
