// The collectives over several hosts that move bytes and compute nothing.
#include <ATen/ops/empty.h>

#include <algorithm>

#include "lockstep/base/text/text.h"
#include "lockstep/comm/backends/hosts/collectives.h"
#include "lockstep/comm/backends/hosts/tensor_bytes.h"
#include "lockstep/comm/backends/support/tensor_lists.h"

namespace lockstep::comm {
namespace {

using Numbers = std::vector<std::int64_t>;

std::span<const std::byte> span_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

std::string text_of(const Numbers& numbers) {
  std::vector<std::string> texts;
  for (const auto number : numbers) {
    texts.push_back(std::to_string(number));
  }
  return join(texts, ", ");
}

// The first bytes of what a host sent along.
at::Tensor copy_of(const std::byte* payload, std::int64_t count) {
  at::Tensor bytes = empty_bytes(count);
  std::copy_n(payload, count, static_cast<std::byte*>(bytes.data_ptr()));
  return bytes;
}

}  // namespace

void HostCollectives::gather_inside(const Tensors& shares, Deadline deadline) const {
  if (!parts_.inside) {
    return;
  }
  Tensors inputs{own(shares)};
  std::vector<Tensors> outputs{shares};
  const auto options = with_timeout<c10d::AllgatherOptions>(deadline);
  parts_.inside->allgather(outputs, inputs, options)->wait();
}

void HostCollectives::meet_inside(Deadline deadline) const {
  if (parts_.inside) {
    parts_.inside->barrier(with_timeout<c10d::BarrierOptions>(deadline))->wait();
  }
}

void HostCollectives::broadcast_inside(const at::Tensor& tensor, int local_root,
                                       Deadline deadline) const {
  if (parts_.inside) {
    Tensors tensors{tensor};
    auto options = with_timeout<c10d::BroadcastOptions>(deadline);
    options.rootRank = local_root;
    parts_.inside->broadcast(tensors, options)->wait();
  }
}

void HostCollectives::tell_the_rest(const Tensors& tensors, Deadline deadline) const {
  if (static_cast<int>(map_.ranks_on(map_.here()).size()) > map_.lanes()) {
    for (const auto& tensor : tensors) {
      broadcast_inside(tensor, 0, deadline);
    }
  }
}

void HostCollectives::gather_over_lane(const at::Tensor& all, const at::Tensor& mine,
                                       Deadline deadline) const {
  if (parts_.lane && mine.numel() > 0) {
    at::Tensor output = all;
    at::Tensor input = mine;
    const auto options = with_timeout<c10d::AllgatherOptions>(deadline);
    waiter_.wait(*waiter_.remember(parts_.lane->_allgather_base(output, input, options)));
  }
}

void HostCollectives::barrier(Deadline deadline) const {
  meet_inside(deadline);
  check_call("barrier", deadline).require(map_);  // All of a lane have come when it is there.
  meet_inside(deadline);  // Until the neighbours' lanes are through as well.
}

void HostCollectives::broadcast(const at::Tensor& tensor, int root, Deadline deadline) const {
  const std::string call = "broadcast (" + std::to_string(tensor.nbytes()) + " bytes from rank " +
                           std::to_string(root) + ")";
  const at::Tensor bytes = as_bytes(tensor);
  const int from = map_.host_of(root);
  const bool is_beside = tensor.nbytes() <= CallCheck::kPayloadBytes;
  if (from == map_.here()) {
    broadcast_inside(bytes, map_.local_rank_of(root), deadline);
  }
  const auto check =
      check_call(call, deadline,
                 is_beside && from == map_.here() ? span_of(bytes) : std::span<const std::byte>());
  check.require(map_);
  if (is_beside) {
    if (from != map_.here() && parts_.lane) {
      bytes.copy_(copy_of(check.payload_of(from), bytes.numel()));
    }
    if (from != map_.here()) {
      tell_the_rest({bytes}, deadline);
    }
    return;
  }
  const auto shares = shares_of(bytes);
  Tensors mine{own(shares)};
  if (parts_.lane && mine[0].numel() > 0) {
    auto options = with_timeout<c10d::BroadcastOptions>(deadline);
    options.rootRank = from;
    waiter_.wait(*waiter_.remember(parts_.lane->broadcast(mine, options)));
  }
  if (from != map_.here()) {
    gather_inside(shares, deadline);
  }
}

// Inside each host first; then each lane carries its share of the hosts' blocks.
void HostCollectives::all_gather(const Tensors& outputs, const at::Tensor& input,
                                 Deadline deadline) const {
  const Tensors results = as_bytes(outputs);
  const Numbers counts = element_counts(results);
  std::vector<Tensors> parts(static_cast<std::size_t>(map_.hosts()));  // By host, then by rank.
  Tensors blocks;
  std::int64_t longest = 0;
  for (int host = 0; host < map_.hosts(); ++host) {
    std::int64_t bytes = 0;
    for (const int rank : map_.ranks_on(host)) {
      bytes += counts[static_cast<std::size_t>(rank)];
    }
    longest = std::max(longest, bytes);
  }
  for (int host = 0; host < map_.hosts(); ++host) {
    blocks.push_back(empty_bytes(longest));
    std::int64_t at = 0;
    for (const int rank : map_.ranks_on(host)) {
      const auto count = counts[static_cast<std::size_t>(rank)];
      parts[static_cast<std::size_t>(host)].push_back(blocks.back().narrow(0, at, count));
      at += count;
    }
  }
  const auto here = static_cast<std::size_t>(map_.here());
  own(parts[here]).copy_(as_bytes(input));
  gather_inside(parts[here], deadline);
  const bool is_beside = longest <= static_cast<std::int64_t>(CallCheck::kPayloadBytes);
  const auto check = check_call("all_gather (" + text_of(counts) + " bytes)", deadline,
                                is_beside ? span_of(blocks[here]) : std::span<const std::byte>());
  check.require(map_);
  const auto share = own(shares_of(blocks[here]));
  const at::Tensor all = empty_bytes(is_beside ? 0 : map_.hosts() * share.numel());
  if (!is_beside) {
    gather_over_lane(all, share, deadline);
  }
  for (int host = 0; host < map_.hosts(); ++host) {
    const auto& block = blocks[static_cast<std::size_t>(host)];
    if (host == map_.here()) {
      continue;
    }
    if (is_beside) {
      if (parts_.lane) {
        block.copy_(copy_of(check.payload_of(host), longest));
      }
      tell_the_rest({block}, deadline);
    } else {
      const auto shares = shares_of(block);
      own(shares).copy_(all.narrow(0, host * share.numel(), share.numel()));
      gather_inside(shares, deadline);
    }
  }
  for (int rank = 0; rank < parts_.size; ++rank) {
    results[static_cast<std::size_t>(rank)].copy_(parts[static_cast<std::size_t>(
        map_.host_of(rank))][static_cast<std::size_t>(map_.local_rank_of(rank))]);
  }
}

}  // namespace lockstep::comm
