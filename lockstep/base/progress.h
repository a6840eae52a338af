// What a rank reports about itself between collectives, so that the others' errors can say what it
// was doing when it did not come.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

enum class Phase : std::uint8_t {
  kUnknown,
  kForward,
  kBackward,
  kBetweenSteps,
  kSaving,  // A checkpoint. Whoever says so ends it in a time of its own: others wait longer.
};

struct Progress {
  Phase phase = Phase::kUnknown;
  std::uint64_t step = 0;  // Steps that it has begun, or the one that it saves.

  bool operator==(const Progress&) const = default;
};

// Packs it into one word of a segment. Any word unpacks to some progress.
std::uint64_t pack_progress(const Progress& progress);
Progress unpack_progress(std::uint64_t word);

// "in forward of step 12"; empty if nothing was said.
std::string text_of(const Progress& progress);

}  // namespace lockstep
