#include "lockstep/launch/job/node_ranks.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "lockstep/base/text/text.h"

namespace lockstep::launch {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Removes a run of digits from the front and returns it without leading zeros.
std::string_view take_number(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length])) {
    ++length;
  }
  std::string_view number = text.substr(0, length);
  text.remove_prefix(length);
  while (number.size() > 1 && number.front() == '0') {
    number.remove_prefix(1);
  }
  return number;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const auto x = take_number(a);
      const auto y = take_number(b);
      if (x != y) {
        return x.size() != y.size() ? x.size() < y.size() : x < y;
      }
    } else if (a.front() != b.front()) {
      return a.front() < b.front();
    } else {
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.size() != b.size() ? a.size() < b.size() : whole_a < whole_b;
}

std::string describe_node(const Join& join) {
  const std::string host = "'" + join.node.host + "'";
  return join.node_rank >= 0 ? "node " + std::to_string(join.node_rank) + " " + host
                             : "a node without --node-rank on " + host;
}

std::optional<Objection> object_to(const Join& candidate, const std::vector<Join>& members) {
  const Join& leader = members.front();
  const std::string who = describe_node(candidate);
  if (candidate.run_id != leader.run_id) {
    return Objection{who + " came with --rdzv-id '" + candidate.run_id + "', expected '" +
                         leader.run_id + "'; give all nodes of a job the same",
                     true};
  }
  if (candidate.nodes != leader.nodes) {
    return Objection{who + " was started with --nnodes " + std::to_string(candidate.nodes) + ", " +
                     describe_node(leader) + " with --nnodes " + std::to_string(leader.nodes)};
  }
  if (static_cast<int>(members.size()) >= leader.nodes) {
    return Objection{
        who + " is one too many: all " + std::to_string(leader.nodes) + " nodes are here already",
        true};
  }
  if (candidate.node_rank >= leader.nodes) {
    return Objection{who + " has a rank that --nnodes " + std::to_string(leader.nodes) +
                     " does not allow"};
  }
  for (const auto& member : members) {
    if (candidate.node_rank >= 0 && member.node_rank == candidate.node_rank) {
      return Objection{"--node-rank " + std::to_string(candidate.node_rank) +
                       " was given twice: on '" + member.node.host + "' (pid " +
                       std::to_string(member.pid) + ") and on '" + candidate.node.host + "' (pid " +
                       std::to_string(candidate.pid) + ")"};
    }
  }
  return std::nullopt;
}

std::string describe_missing(const std::vector<Join>& members) {
  const int nodes = members.front().nodes;
  if (static_cast<int>(members.size()) == nodes) {
    return "";
  }
  std::vector<std::string> present;
  std::vector<bool> here(static_cast<std::size_t>(nodes), false);
  bool pinned = true;
  for (const auto& member : members) {
    present.push_back(describe_node(member));
    pinned = pinned && member.node_rank >= 0;
    if (member.node_rank >= 0) {
      here[static_cast<std::size_t>(member.node_rank)] = true;
    }
  }
  const std::string of_all = " of " + std::to_string(nodes);
  if (!pinned) {
    return std::to_string(nodes - static_cast<int>(members.size())) + of_all +
           " nodes (present: " + join(present, ", ") + ")";
  }
  std::vector<int> missing;
  for (int rank = 0; rank < nodes; ++rank) {
    if (!here[static_cast<std::size_t>(rank)]) {
      missing.push_back(rank);
    }
  }
  return (missing.size() == 1 ? "node " : "nodes ") + join_numbers(missing) + of_all;
}

std::vector<int> assign_node_ranks(const std::vector<Join>& members) {
  std::vector<int> ranks(members.size(), -1);
  std::vector<bool> taken(members.size(), false);
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < members.size(); ++i) {
    ranks[i] = members[i].node_rank;
    if (ranks[i] >= 0) {
      taken[static_cast<std::size_t>(ranks[i])] = true;
    } else {
      open.push_back(i);
    }
  }
  std::sort(open.begin(), open.end(), [&](std::size_t a, std::size_t b) {
    if (a == 0 || b == 0) {
      return a == 0 && b != 0;
    }
    if (members[a].node.host != members[b].node.host) {
      return natural_less(members[a].node.host, members[b].node.host);
    }
    return members[a].pid < members[b].pid;
  });
  std::size_t node_rank = 0;
  for (const std::size_t member : open) {
    while (taken[node_rank]) {
      ++node_rank;
    }
    ranks[member] = static_cast<int>(node_rank++);
  }
  return ranks;
}

}  // namespace lockstep::launch
