// Each rank stages what the others fold; one meeting per chunk.
#include <algorithm>
#include <cstring>

#include "lockstep/shm/collectives/collectives.h"

namespace lockstep::shm {
namespace {

// Part c of a tensor that is cut into slices.
Tensor part_of(const Tensor& tensor, std::size_t c, std::size_t slice, std::size_t element) {
  const std::size_t at = std::min(c * slice, tensor.count);
  return {tensor.data + at * element, std::min(slice, tensor.count - at)};
}

}  // namespace

void reduce_scatter(Team& team, std::byte* output, const std::vector<Tensor>& inputs,
                    const Fold& fold, Deadline deadline) {
  const auto ranks = static_cast<std::size_t>(team.size());
  const auto me = static_cast<std::size_t>(team.rank());
  const std::size_t element = size_of(fold.reduction.dtype);
  const std::size_t slice_bytes = team.memory()->layout().staging_bytes / ranks / kLine * kLine;
  const std::size_t slice = slice_bytes / element;
  const auto copy_in = [&](std::size_t c, std::byte* staging) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto part = part_of(inputs[rank], c, slice, element);
      if (rank != me && part.count > 0) {
        std::memcpy(staging + rank * slice_bytes, part.data, part.count * element);
      }
    }
  };

  std::size_t most = 0;
  std::size_t total = 0;
  for (const auto& input : inputs) {
    most = std::max(most, input.count);
    total += input.count;
  }
  team.announce({.kind = Kind::kReduceScatter,
                 .dtype = fold.reduction.dtype,
                 .op = fold.reduction.op,
                 .count = total,
                 .factor = fold.factor},
                deadline);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    team.sent_sizes(team.rank())[rank].store(inputs[rank].count, std::memory_order_relaxed);
  }
  copy_in(0, team.staging(team.rank()));
  std::vector<double> factors;
  for (const auto& call : team.agree()) {
    factors.push_back(call.factor);
  }
  for (int rank = 1; rank < team.size(); ++rank) {
    for (std::size_t to = 0; to < ranks; ++to) {
      const auto first = team.sent_sizes(0)[to].load(std::memory_order_relaxed);
      const auto other = team.sent_sizes(rank)[to].load(std::memory_order_relaxed);
      if (first != other) {
        const auto& watch = team.watch();
        team.mismatch(watch.who(0) + " has " + std::to_string(first) + " elements for " +
                      watch.who(static_cast<int>(to)) + ", " + watch.who(rank) + " has " +
                      std::to_string(other));
      }
    }
  }

  const std::size_t chunks = (most + slice - 1) / slice;
  std::vector<const std::byte*> sources(ranks);
  for (std::size_t c = 0; c < chunks; ++c) {
    const auto own = part_of(inputs[me], c, slice, element);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      sources[rank] =
          rank == me ? own.data : team.staging(static_cast<int>(rank)) + me * slice_bytes;
    }
    if (own.count > 0) {  // Else there may be no output.
      std::byte* result = output + c * slice * element;
      shm::reduce(fold.reduction, sources, {&result, 1}, own.count, factors);
    }
    if (c + 1 < chunks) {
      copy_in(c + 1, team.staging_of_next_turn(team.rank()));
      team.meet();
    }
    team.next_turn();
  }
}

}  // namespace lockstep::shm
