// What lies where in a rank's segment, and who may write it. docs/internals/shm.md explains the
// protocol.
//
//   Control | tables | letter boxes | staging buffer 0 | staging buffer 1 | arena ...
//
// The first piece of the segment holds all of these and the beginning of the arena. The arena goes
// on in further pieces, each mapped when it is needed.
//
// Control and the tables consist of atomic words: a peer may read one at any time, and a faulty
// peer may write anything into one. Readers copy a word once and check it before they use it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lockstep/shm/segments/segment.h"

namespace lockstep::shm {

inline constexpr std::uint64_t kMagic = 0x31306d68736b636cULL;  // "lckshm01"
inline constexpr std::uint32_t kVersion = 5;
inline constexpr std::size_t kLine = 64;  // Words that different ranks write share no cache line.
inline constexpr std::size_t kPage = 4096;
inline constexpr int kMaxRanks = 1024;

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

// One collective as its caller described it. Each rank has two, used in turn by sequence number.
struct alignas(kLine) Announcement {
  Word sequence;
  Word kind;    // Kind, dtype, reduce operation and root, packed: see call.h.
  Word count;   // Elements.
  Word place;   // Offset in the segment if the tensor lies in the arena, else 0.
  Word factor;  // Bits of a double, for kPremulSum and, in all_reduce and reduce, kSum.
  Word number;  // What the user knows the collective by; 0: the sequence.
};

enum class Standing : std::uint64_t { kMember = 0, kLeft = 1, kFailed = 2 };

// Why a rank failed, for the others' messages. The standing is written last.
struct alignas(kLine) Fate {
  Word standing;
  Word reason;   // Watch::Reason.
  Word culprit;  // Rank.
  Word signal;
  Word text[48];  // Eight characters each: what a rank that aborts has to say.
};

struct Control {
  // Written by the owner before it hands the segment over.
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t rank;
  std::uint32_t size;
  std::uint32_t staging_bytes;

  alignas(kLine) Word phase;  // Meetings that the owner has come to; publishes all before it.
  alignas(kLine) std::atomic<std::uint32_t> sleepers;  // Threads of the owner asleep on the bell.
  std::atomic<std::uint32_t> bell;                     // Rung by peers.
  Announcement announcements[2];
  Fate fate;
  alignas(kLine) Word progress;  // What the owner says that it is doing: see progress.h.
  // Where the pieces of the segment end; each begins where the one before it ends. 0: none yet.
  alignas(kLine) Word piece_ends[kMaxPieces];
};

// The head of a message, in the sender's arena; the message's bytes follow. The messages to one
// rank form a linked list. It has no limit, and stays complete in memory after the sender is gone.
struct alignas(kLine) Letter {
  Word next;   // Place of the following letter to the same rank; 0: none yet. Publishes that one.
  Word taken;  // By the receiver: not 0 once it has copied the bytes.
  Word tag;
  Word bytes;
};

// The chain of letters to one rank.
struct alignas(kLine) LetterBox {
  Word first;  // Place of the first letter; 0: none yet.
  Word seen;   // By the receiver: letters that it has come past. Those before the last are not read
               // again.
};

// Offsets in a segment, computed alike by all ranks.
struct Layout {
  Layout(int ranks, std::size_t staging);

  int size;
  std::size_t staging_bytes;  // Size of one of the two buffers.
  std::size_t tables;         // [2][2][size] words: bytes given to and taken from each rank.
  std::size_t letter_boxes;   // [size].
  std::size_t staging;
  std::size_t arena;
};

}  // namespace lockstep::shm
