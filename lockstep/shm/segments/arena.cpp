#include "lockstep/shm/segments/arena.h"

#include <algorithm>
#include <iterator>

#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"
#include "lockstep/shm/segments/layout.h"

namespace lockstep::shm {
namespace {

constexpr std::size_t kKeep = std::size_t{32} << 20;  // Larger free blocks go back to the machine.
constexpr std::size_t kLeastPiece = std::size_t{1} << 20;

}  // namespace

Arena::Arena(Segment& segment, std::size_t begin, Word* piece_ends)
    : segment_(segment), piece_ends_(piece_ends), begin_(begin), backed_until_(begin) {
  if (segment.bytes() > begin) {
    free_[begin] = segment.bytes() - begin;
  }
}

std::size_t Arena::take(std::size_t bytes, const std::string& what) {
  const std::size_t size = std::max((bytes + kPage - 1) / kPage * kPage, kPage);
  if (!fork_guard_.in_owner()) {
    throw UsageError(what + ": this process is a fork of the one that joined the group");
  }
  const std::lock_guard lock(mutex_);
  if (frozen_) {
    throw UsageError(what + ": this rank has left the group, or the group failed; form a new one");
  }
  if (size < bytes || size > segment_.capacity() - segment_.bytes()) {
    throw IoError(what + ": " + size_text(bytes) + " of shared memory are needed, a segment has " +
                  size_text(segment_.capacity()) + "; use smaller tensors, or see `ulimit -f`");
  }
  const auto fits = [&](const auto& block) { return block.second >= size; };
  auto found = std::find_if(free_.begin(), free_.end(), fits);
  if (found == free_.end()) {
    grow(size, what);
    found = std::prev(free_.end());
  }
  const auto [offset, available] = *found;
  back(offset, size, what);
  free_.erase(found);
  if (available > size) {
    free_[offset + size] = available - size;
  }
  taken_[offset] = size;
  return offset;
}

// Adds a piece that begins with a free block of this many bytes. Takes the memory first: if the
// machine has none, no address space is needed.
void Arena::grow(std::size_t bytes, const std::string& what) {
  const std::size_t begin = segment_.bytes();
  segment_.back(begin, bytes, what);
  try {
    extend(bytes);
  } catch (const IoError& error) {
    segment_.unback(begin, bytes);
    throw IoError(what + ": " + error.what());
  }
  if (backed_until_ < begin) {
    holes_[backed_until_] = begin - backed_until_;
  }
  backed_until_ = begin + bytes;
  free_[begin] = segment_.bytes() - begin;
  piece_ends_[segment_.pieces() - 1].store(segment_.bytes());
}

// Grows by half, so that there are few pieces. If that fails, adds only what is needed.
void Arena::extend(std::size_t bytes) {
  const std::size_t begin = segment_.bytes();
  const std::size_t least = granule_up(bytes);
  const std::size_t good =
      std::min(std::max({least, granule_up(begin / 2), kLeastPiece}), segment_.capacity() - begin);
  if (good > least) {
    try {
      return segment_.extend(begin + good);
    } catch (const IoError&) {
    }
  }
  segment_.extend(begin + least);
}

// Asking the kernel takes about 50 us, so it is not asked for pages that are already there.
void Arena::back(std::size_t offset, std::size_t bytes, const std::string& what) {
  const std::size_t end = offset + bytes;
  const auto in_range = [&](const auto& hole) {
    return hole.first < end && offset < hole.first + hole.second;
  };
  if (end <= backed_until_ && std::none_of(holes_.begin(), holes_.end(), in_range)) {
    return;
  }
  segment_.back(offset, bytes, what);
  backed_until_ = std::max(backed_until_, end);
  fill_holes(offset, end);
}

// The rest of a hole, on either side, stays a hole.
void Arena::fill_holes(std::size_t begin, std::size_t end) {
  for (auto hole = holes_.begin(); hole != holes_.end();) {
    const auto [hole_begin, bytes] = *hole;
    const std::size_t hole_end = hole_begin + bytes;
    if (hole_end <= begin || end <= hole_begin) {
      ++hole;
      continue;
    }
    hole = holes_.erase(hole);
    if (hole_begin < begin) {
      holes_[hole_begin] = begin - hole_begin;
    }
    if (end < hole_end) {
      holes_[end] = hole_end - end;
    }
  }
}

void Arena::freeze() {
  const std::lock_guard lock(mutex_);
  frozen_ = true;
}

Arena::MemoryUse Arena::memory_use() {
  if (!fork_guard_.in_owner()) {
    return {};
  }
  const auto sum = [](const auto& blocks) {
    std::size_t bytes = 0;
    for (const auto& [offset, size] : blocks) {
      bytes += size;
    }
    return bytes;
  };
  const std::lock_guard lock(mutex_);
  return {.allocated_bytes = sum(taken_), .reserved_bytes = backed_until_ - begin_ - sum(holes_)};
}

void Arena::give_back(std::size_t offset) {
  if (!fork_guard_.in_owner()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (frozen_) {
    return;
  }
  const auto found = taken_.find(offset);
  if (found == taken_.end()) {
    return;
  }
  std::size_t size = found->second;
  taken_.erase(found);
  if (size > kKeep) {
    segment_.unback(offset, size);
    holes_[offset] = size;
  }
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + size == next->first &&
      !segment_.begins_a_piece(next->first)) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset && !segment_.begins_a_piece(offset)) {
      before->second += size;
      return;
    }
  }
  free_[offset] = size;
}

}  // namespace lockstep::shm
