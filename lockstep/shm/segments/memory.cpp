#include "lockstep/shm/segments/memory.h"

#include <new>

#include "lockstep/base/error.h"

namespace lockstep::shm {
namespace {

// What a peer's table says about the end of a piece that begins at `begin`.
bool is_end_of_piece(std::uint64_t end, std::size_t begin, const Segment& segment) {
  return end > begin && end % kGranule == 0 && end <= segment.capacity();
}

}  // namespace

Segment Memory::prepare(const Layout& layout, int rank, std::size_t arena_bytes) {
  Segment segment = Segment::create(0);
  segment.back(
      0, layout.arena,
      "shared memory of rank " + std::to_string(rank) + " of " + std::to_string(layout.size));
  segment.extend(granule_up(layout.arena + arena_bytes));
  auto* control = new (segment.data()) Control{};
  control->magic = kMagic;
  control->version = kVersion;
  control->rank = static_cast<std::uint32_t>(rank);
  control->size = static_cast<std::uint32_t>(layout.size);
  control->staging_bytes = static_cast<std::uint32_t>(layout.staging_bytes);
  control->piece_ends[0].store(segment.bytes());
  return segment;
}

Memory::Memory(const Layout& layout, std::vector<Segment> segments)
    : layout_(layout), segments_(std::move(segments)) {
  for (int rank = 0; rank < layout_.size; ++rank) {
    auto& segment = segments_[static_cast<std::size_t>(rank)];
    auto* head = reinterpret_cast<Control*>(segment.data());
    const auto first_end = head->piece_ends[0].load();
    if (head->magic != kMagic || head->version != kVersion ||
        static_cast<int>(head->rank) != rank || static_cast<int>(head->size) != layout_.size ||
        head->staging_bytes != layout_.staging_bytes || first_end < layout_.arena ||
        !is_end_of_piece(first_end, 0, segment)) {
      throw PeerError("shared memory: the segment of rank " + std::to_string(rank) +
                      " is laid out in another way than this rank's; use the same lockstep, world "
                      "size and settings on all ranks");
    }
    if (segment.is_own()) {
      arenas_.try_emplace(rank, segment, layout_.arena, head->piece_ends);
    } else {
      segment.extend_first(first_end);
    }
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
  const auto offset = segments_[static_cast<std::size_t>(rank)].offset_of(data, bytes);
  return offset && *offset >= layout_.arena ? *offset : 0;
}

std::byte* Memory::at(int rank, std::uint64_t place, std::size_t bytes, std::size_t alignment) {
  const auto& segment = segments_[static_cast<std::size_t>(rank)];
  if (place < layout_.arena || place % alignment != 0) {
    return nullptr;
  }
  if (place >= segment.bytes() && !segment.is_own()) {
    map_until(rank, place);
  }
  return segment.at(place, bytes);
}

// As far as the peer's table goes, and no further than needed.
void Memory::map_until(int rank, std::uint64_t place) {
  const std::lock_guard lock(mutex_);
  auto& segment = segments_[static_cast<std::size_t>(rank)];
  while (place >= segment.bytes() && segment.pieces() < kMaxPieces) {
    const auto end = control(rank).piece_ends[segment.pieces()].load();
    if (!is_end_of_piece(end, segment.bytes(), segment)) {
      return;
    }
    try {
      segment.extend(end);
    } catch (const IoError& error) {
      throw IoError("memory of rank " + std::to_string(rank) + ": " + error.what());
    }
  }
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
