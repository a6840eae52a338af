// One collective as a rank called it: what travels with it so that a mismatch is seen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/shm/reduce/reduction.h"
#include "lockstep/shm/segments/layout.h"

namespace lockstep::shm {

enum class Kind : std::uint8_t {
  kBarrier,
  kAllReduce,
  kReduce,
  kReduceScatter,
  kBroadcast,
  kAllGather,
  kGather,
  kScatter,
  kAllToAll,
};
const char* name_of(Kind kind);

// How errors name a collective: its number among those that the user started, and the kind of the
// user's collective if this one is only a step of it.
struct CallName {
  std::uint64_t number = 0;  // 0: the team's own count.
  std::optional<Kind> kind;
};

struct Call {
  Kind kind = Kind::kBarrier;
  DType dtype = DType::kOther;
  ReduceOp op = ReduceOp::kSum;
  int root = -1;            // -1 where there is none.
  std::uint64_t count = 0;  // Elements; 0 where ranks may differ.
  std::uint64_t place = 0;  // Where the tensor lies in the caller's arena, else 0.
  double factor = 1;
  CallName name;

  // Whether ranks that call these two run the same collective.
  [[nodiscard]] bool matches(const Call& other) const;
  // "all_reduce(sum, float32, 256 elements: 1024 bytes)"; with a number, or its name's if that has
  // one: "all_reduce #12 (...)".
  [[nodiscard]] std::string text(std::uint64_t sequence = 0) const;

  void write_to(Announcement& announcement, std::uint64_t sequence) const;
  // What a peer wrote; enumerators out of range are printed as unknown and match nothing valid.
  static Call read_from(const Announcement& announcement);
};

}  // namespace lockstep::shm
