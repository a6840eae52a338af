#include "lockstep/comm/backends/support/overlap.h"

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace lockstep::comm {
namespace {

// Strides that interleave in no simple way are compared piece by piece. More pieces than this take
// longer than the collective, and are taken for separate.
constexpr std::size_t kMostPieces = std::size_t{1} << 24;

// A tensor's memory in bytes: pieces without gaps, repeated along the dimensions.
struct Region {
  struct Dimension {
    std::uintptr_t stride;
    std::uintptr_t size;
  };
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::uintptr_t piece = 0;
  c10::SmallVector<Dimension, 6> dimensions;  // From the smallest stride to the largest.
};

Region region_of(const at::Tensor& tensor) {
  Region region;
  if (tensor.layout() != at::kStrided || tensor.numel() == 0) {
    return region;
  }
  region.begin = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  region.piece = tensor.element_size();
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1) {
      region.dimensions.push_back(
          {static_cast<std::uintptr_t>(tensor.stride(i)) * tensor.element_size(),
           static_cast<std::uintptr_t>(tensor.size(i))});
    }
  }
  auto& dimensions = region.dimensions;
  std::sort(dimensions.begin(), dimensions.end(),
            [](const auto& a, const auto& b) { return a.stride < b.stride; });
  while (!dimensions.empty() && dimensions.front().stride == region.piece) {
    region.piece *= dimensions.front().size;
    dimensions.erase(dimensions.begin());
  }
  region.end = region.begin + region.piece;
  for (const auto& dimension : dimensions) {
    region.end += (dimension.size - 1) * dimension.stride;
  }
  return region;
}

struct Piece {
  std::uintptr_t begin;
  std::uintptr_t end;
};

void add_pieces(const Region& region, std::vector<Piece>& pieces) {
  std::vector<std::uintptr_t> begins{region.begin};
  for (const auto& dimension : region.dimensions) {
    const std::size_t before = begins.size();
    if (before * dimension.size > kMostPieces) {
      return;
    }
    for (std::uintptr_t i = 1; i < dimension.size; ++i) {
      for (std::size_t k = 0; k < before; ++k) {
        begins.push_back(begins[k] + i * dimension.stride);
      }
    }
  }
  for (const auto begin : begins) {
    pieces.push_back({begin, begin + region.piece});
  }
}

bool any_overlap(std::vector<Piece> pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  return std::adjacent_find(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
           return b.begin < a.end;
         }) != pieces.end();
}

// All pieces of both lie at the same two places of a period, as those of columns do.
bool take_turns(const Region& one, const Region& other) {
  std::uintptr_t period = 0;
  for (const auto* region : {&one, &other}) {
    for (const auto& dimension : region->dimensions) {
      period = std::gcd(period, dimension.stride);
    }
  }
  if (period == 0) {
    return false;
  }
  const auto gap = (other.begin % period + period - one.begin % period) % period;
  return one.piece <= gap && other.piece <= period - gap;
}

}  // namespace

bool overlaps_itself(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided || tensor.is_non_overlapping_and_dense()) {
    return false;
  }
  const Region region = region_of(tensor);
  std::uintptr_t extent = region.piece;
  for (const auto& dimension : region.dimensions) {
    if (dimension.stride == 0) {
      return true;
    }
    if (dimension.stride < extent) {
      std::vector<Piece> pieces;
      add_pieces(region, pieces);
      return any_overlap(std::move(pieces));
    }
    extent += (dimension.size - 1) * dimension.stride;
  }
  return false;
}

bool overlap(const at::Tensor& one, const at::Tensor& other) {
  const Region a = region_of(one);
  const Region b = region_of(other);
  if (a.end <= b.begin || b.end <= a.begin) {
    return false;
  }
  if ((a.dimensions.empty() && b.dimensions.empty()) || !take_turns(a, b)) {
    std::vector<Piece> pieces;
    add_pieces(a, pieces);
    add_pieces(b, pieces);
    return any_overlap(std::move(pieces));
  }
  return false;
}

bool coincide(const at::Tensor& one, const at::Tensor& other) {
  return one.layout() == at::kStrided && other.layout() == at::kStrided &&
         one.const_data_ptr() == other.const_data_ptr() && one.numel() == other.numel() &&
         one.is_contiguous() && other.is_contiguous();
}

}  // namespace lockstep::comm
