#include "lockstep/shm/memory.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <new>

#include "lockstep/base/error.h"

namespace lockstep::shm {
namespace {

// All ranks together cannot use more than the machine has; address space is not endless either.
std::size_t fair_share(int ranks) {
  struct sysinfo info{};
  ::sysinfo(&info);
  const std::size_t bytes = static_cast<std::size_t>(info.totalram) * info.mem_unit;
  constexpr std::size_t kLeast = std::size_t{256} << 20;
  return std::max(bytes / static_cast<std::size_t>(ranks) / kPage * kPage, kLeast);
}

}  // namespace

Segment Memory::prepare(const Layout& layout, int rank, std::size_t arena_bytes) {
  Segment segment =
      Segment::create(layout.arena + (arena_bytes > 0 ? arena_bytes : fair_share(layout.size)));
  segment.back(
      0, layout.arena,
      "shared memory of rank " + std::to_string(rank) + " of " + std::to_string(layout.size));
  auto* control = new (segment.data()) Control{};
  control->magic = kMagic;
  control->version = kVersion;
  control->rank = static_cast<std::uint32_t>(rank);
  control->size = static_cast<std::uint32_t>(layout.size);
  control->staging_bytes = static_cast<std::uint32_t>(layout.staging_bytes);
  return segment;
}

Memory::Memory(const Layout& layout, std::vector<Segment> segments)
    : layout_(layout), segments_(std::move(segments)) {
  for (int rank = 0; rank < layout_.size; ++rank) {
    const auto& segment = segments_[static_cast<std::size_t>(rank)];
    const auto* head = reinterpret_cast<const Control*>(segment.data());
    if (segment.bytes() <= layout_.arena || head->magic != kMagic || head->version != kVersion ||
        static_cast<int>(head->rank) != rank || static_cast<int>(head->size) != layout_.size ||
        head->staging_bytes != layout_.staging_bytes) {
      throw PeerError("shared memory: the segment of rank " + std::to_string(rank) +
                      " is laid out in another way than this rank's; use the same lockstep, world "
                      "size and settings on all ranks");
    }
    arenas_.emplace_back(segment, layout_.arena, segment.bytes());
  }
}

Control& Memory::control(int rank) const {
  return *std::launder(reinterpret_cast<Control*>(base(rank)));
}

std::byte* Memory::staging(int rank, std::uint64_t turn) const {
  return base(rank) + layout_.staging + (turn % 2) * layout_.staging_bytes;
}

Word* Memory::table(int rank, std::uint64_t turn, std::size_t which) const {
  const auto n = static_cast<std::size_t>(layout_.size);
  auto* words = reinterpret_cast<Word*>(base(rank) + layout_.tables);
  return words + ((turn % 2) * 2 + which) * n;
}

LetterBox& Memory::letter_box(int from, int to) const {
  return reinterpret_cast<LetterBox*>(base(from) + layout_.letter_boxes)[to];
}

std::uint64_t Memory::place_of(int rank, const void* data, std::size_t bytes) const {
  const auto start = reinterpret_cast<std::uintptr_t>(base(rank));
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  const auto size = segments_[static_cast<std::size_t>(rank)].bytes();
  if (at < start + layout_.arena || at >= start + size || bytes > start + size - at) {
    return 0;
  }
  return at - start;
}

std::byte* Memory::at(int rank, std::uint64_t place, std::size_t bytes,
                      std::size_t alignment) const {
  const auto size = segments_[static_cast<std::size_t>(rank)].bytes();
  if (place < layout_.arena || place > size || bytes > size - place || place % alignment != 0) {
    return nullptr;
  }
  return base(rank) + place;
}

std::shared_ptr<std::byte> allocate(const std::shared_ptr<Memory>& memory, int rank,
                                    std::size_t bytes) {
  const auto place =
      memory->arena(rank).take(bytes, "allocating on rank " + std::to_string(rank) + " of " +
                                          std::to_string(memory->layout().size));
  return {memory->at(rank, place, bytes, 1),
          [memory, rank, place](std::byte*) { memory->arena(rank).give_back(place); }};
}

}  // namespace lockstep::shm
