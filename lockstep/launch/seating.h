// Who gets which node rank, decided by the leader once all nodes have joined.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/launch/message.h"

namespace lockstep::launch {

// "node2" before "node10": runs of digits compare as numbers.
bool natural_less(std::string_view a, std::string_view b);

// Why `candidate` cannot be part of the job of `members` (the leader is the first); nothing if it
// can. `foreign` says that it belongs to another job, so that ours need not end.
struct Objection {
  std::string reason;
  bool foreign = false;
};
std::optional<Objection> object_to(const Join& candidate, const std::vector<Join>& members);

// The node rank of each member, given all of them, the leader first. Ranks asked for are kept;
// the leader takes the lowest one left, the others follow in natural order of host, then pid.
std::vector<int> assign_node_ranks(const std::vector<Join>& members);

// "node 1 of 2", or "1 of 2 nodes (present: ...)" where ranks are not given; empty once all of the
// leader's --nnodes are here. The leader is the first.
std::string describe_missing(const std::vector<Join>& members);

// "node 1 'hostb'", or "a node without --node-rank on 'hostb'".
std::string describe_node(const Join& join);

}  // namespace lockstep::launch
