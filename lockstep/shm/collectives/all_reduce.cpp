// all_reduce and reduce. Three ways, chosen alike by all ranks:
//  - small tensors: everybody stages its own, one meeting, everybody folds everything;
//  - all tensors in the arena: one meeting, each rank folds its part of all tensors and writes it
//    to all of them, one meeting;
//  - else chunk by chunk, each rank folds its slice of the chunk, one meeting per chunk.
#include <algorithm>
#include <cstring>

#include "lockstep/shm/collectives/collectives.h"

namespace lockstep::shm {
namespace {

// Up to this, folding everything on every rank takes less time than a second meeting.
constexpr std::size_t kSmallBytes = std::size_t{4} << 10;
// The same where tensors are staged anyway; the more ranks, the more of it is done many times over.
std::size_t small_staged_bytes(std::size_t ranks) {
  return std::size_t{ranks == 2 ? 64U : 16U} << 10;
}

constexpr int kAll = -1;

// kSum is kPremulSum with a factor of 1, so each rank may choose either.
ReduceOp announced_op(ReduceOp op) { return op == ReduceOp::kPremulSum ? ReduceOp::kSum : op; }

class Folding {
 public:
  Folding(Team& team, const Tensor& tensor, const Fold& fold, int root)
      : team_(team),
        tensor_(tensor),
        reduction_(fold.reduction),
        factor_(fold.factor),
        root_(root),
        element_(size_of(fold.reduction.dtype)),
        bytes_(tensor.count * element_),
        ranks_(static_cast<std::size_t>(team.size())),
        me_(static_cast<std::size_t>(team.rank())),
        slice_bytes_(team.memory()->layout().staging_bytes / ranks_ / kLine * kLine),
        slice_(slice_bytes_ / element_),
        placed_(team.scratch().placed),
        inputs_(team.scratch().inputs),
        outputs_(team.scratch().outputs),
        factors_(team.scratch().factors) {}

  void run(Kind kind, Deadline deadline) {
    const auto place = own_place();
    team_.announce({.kind = kind,
                    .dtype = reduction_.dtype,
                    .op = announced_op(reduction_.op),
                    .root = root_,
                    .count = tensor_.count,
                    .place = place,
                    .factor = factor_},
                   deadline);
    const bool everybody_if_staged = bytes_ <= small_staged_bytes(ranks_);
    if (bytes_ <= kSmallBytes || (place == 0 && everybody_if_staged)) {
      stage_chunk(0, team_.staging(team_.rank()));
    } else if (place == 0) {
      stage_slices(0, team_.staging(team_.rank()));
    }
    look_at(team_.agree());
    if (ranks_ == 1 && reduction_.op != ReduceOp::kPremulSum) {
      return;  // The tensor is its own sum.
    }
    const auto staged = static_cast<std::size_t>(
        std::count(placed_.begin(), placed_.end(), static_cast<std::byte*>(nullptr)));
    if (bytes_ <= kSmallBytes || (staged == ranks_ && everybody_if_staged)) {
      everybody_folds();
    } else if (staged == 0) {
      in_place();
    } else {
      in_slices(place != 0);
    }
  }

 private:
  // Small tensors are staged wherever they lie.
  [[nodiscard]] std::uint64_t own_place() const {
    const auto place =
        bytes_ <= kSmallBytes ? 0 : team_.memory()->place_of(team_.rank(), tensor_.data, bytes_);
    return place % element_ == 0 ? place : 0;  // Peers could not read it as elements.
  }

  struct Range {
    std::size_t at;  // Element of the tensor.
    std::size_t count;
  };

  [[nodiscard]] bool wants_result() const { return root_ == kAll || root_ == team_.rank(); }
  [[nodiscard]] std::byte* element(std::byte* data, std::size_t at) const {
    return data + at * element_;
  }

  void in_place() {
    const std::size_t lines = (bytes_ + kLine - 1) / kLine;
    const std::size_t part = (lines + ranks_ - 1) / ranks_ * (kLine / element_);
    const std::size_t at = std::min(part * me_, tensor_.count);
    inputs_.clear();
    outputs_.clear();
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      inputs_.push_back(element(placed_[rank], at));
      if (root_ == kAll || root_ == static_cast<int>(rank)) {
        outputs_.push_back(element(placed_[rank], at));
      }
    }
    fold(std::min(part, tensor_.count - at));
    team_.meet();
  }

  [[nodiscard]] std::size_t chunks() const {
    const std::size_t chunk = slice_ * ranks_;  // At least one element a rank.
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero)
    return (tensor_.count + chunk - 1) / chunk;
  }
  [[nodiscard]] Range chunk_at(std::size_t chunk) const {
    const std::size_t at = std::min(chunk * ranks_ * slice_, tensor_.count);
    return {at, std::min(ranks_ * slice_, tensor_.count - at)};
  }

  void everybody_folds() {
    for (std::size_t c = 0; c < chunks(); ++c) {
      const auto range = chunk_at(c);
      if (wants_result()) {
        inputs_.clear();
        for (int rank = 0; rank < team_.size(); ++rank) {
          inputs_.push_back(team_.staging(rank));
        }
        outputs_.assign(1, element(tensor_.data, range.at));
        fold(range.count);
      }
      if (c + 1 < chunks()) {
        stage_chunk(c + 1, team_.staging_of_next_turn(team_.rank()));
        team_.meet();
      }
      team_.next_turn();
    }
  }

  // While the others read what this rank folded of chunk c, it stages chunk c + 1 in the other
  // buffer: docs/internals/shm.md shows why two buffers are enough.
  void in_slices(bool mine_is_placed) {
    for (std::size_t c = 0; c < chunks(); ++c) {
      fold_own_slice(c);
      if (c + 1 < chunks() && !mine_is_placed) {
        stage_slices(c + 1, team_.staging_of_next_turn(team_.rank()));
      }
      team_.meet();
      if (wants_result()) {
        copy_out(c);
      }
      team_.next_turn();
    }
  }

  // The part of a chunk that one rank folds.
  [[nodiscard]] Range slice_of(std::size_t chunk, std::size_t rank) const {
    const std::size_t at = std::min((chunk * ranks_ + rank) * slice_, tensor_.count);
    return {at, std::min(slice_, tensor_.count - at)};
  }

  // A chunk lies in the staging buffer as it lies in the tensor.
  void stage_chunk(std::size_t chunk, std::byte* staging) const {
    const auto range = chunk_at(chunk);
    if (range.count > 0) {
      copy(staging, element(tensor_.data, range.at), range.count);
    }
  }

  // All but this rank's own slice, which the others may still read: it holds what was folded of the
  // chunk before the last.
  void stage_slices(std::size_t chunk, std::byte* staging) const {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const auto range = slice_of(chunk, rank);
      if (rank != me_ && range.count > 0) {
        copy(staging + rank * slice_bytes_, element(tensor_.data, range.at), range.count);
      }
    }
  }

  void fold_own_slice(std::size_t chunk) {
    const auto range = slice_of(chunk, me_);
    inputs_.clear();
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (rank == me_) {
        inputs_.push_back(element(tensor_.data, range.at));
      } else if (placed_[rank] != nullptr) {
        inputs_.push_back(element(placed_[rank], range.at));
      } else {
        inputs_.push_back(team_.staging(static_cast<int>(rank)) + me_ * slice_bytes_);
      }
    }
    outputs_.assign(1, team_.staging(team_.rank()) + me_ * slice_bytes_);
    if (wants_result()) {
      outputs_.push_back(element(tensor_.data, range.at));
    }
    fold(range.count);
  }

  void copy_out(std::size_t chunk) const {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const auto range = slice_of(chunk, rank);
      if (rank != me_ && range.count > 0) {
        copy(element(tensor_.data, range.at),
             team_.staging(static_cast<int>(rank)) + rank * slice_bytes_, range.count);
      }
    }
  }

  void copy(std::byte* to, const std::byte* from, std::size_t count) const {
    std::memcpy(to, from, count * element_);
    team_.count_copied(count * element_);
  }

  void fold(std::size_t count) { shm::reduce(reduction_, inputs_, outputs_, count, factors_); }

  // What the others' calls say: where their tensors are, and their factors.
  void look_at(const std::vector<Call>& calls) {
    placed_.clear();
    factors_.clear();
    for (int rank = 0; rank < team_.size(); ++rank) {
      const auto& call = calls[static_cast<std::size_t>(rank)];
      placed_.push_back(team_.placed(rank, call, bytes_));
      factors_.push_back(call.factor);
    }
    if (announced_op(reduction_.op) == ReduceOp::kSum) {
      const bool plain =
          std::all_of(factors_.begin(), factors_.end(), [](double factor) { return factor == 1; });
      const bool scaled = !plain && can_reduce(reduction_.dtype, ReduceOp::kPremulSum);
      reduction_.op = scaled ? ReduceOp::kPremulSum : ReduceOp::kSum;
    }
  }

  Team& team_;
  Tensor tensor_;
  Reduction reduction_;
  double factor_;
  int root_;
  std::size_t element_;  // Bytes.
  std::size_t bytes_;
  std::size_t ranks_;
  std::size_t me_;
  std::size_t slice_bytes_;
  std::size_t slice_;                // Elements.
  std::vector<std::byte*>& placed_;  // By rank; null where the tensor is not in the arena.
  std::vector<const std::byte*>& inputs_;
  std::vector<std::byte*>& outputs_;
  std::vector<double>& factors_;
};

}  // namespace

void all_reduce(Team& team, const Tensor& tensor, const Fold& fold, Deadline deadline) {
  Folding(team, tensor, fold, kAll).run(Kind::kAllReduce, deadline);
}

void reduce(Team& team, const Tensor& tensor, const Fold& fold, int root, Deadline deadline) {
  Folding(team, tensor, fold, root).run(Kind::kReduce, deadline);
}

}  // namespace lockstep::shm
