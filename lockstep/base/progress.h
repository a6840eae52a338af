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
  kFailed,  // It ends because of an error.
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
// The same; "before its first step" if nothing was said.
std::string place_of(const Progress& progress);

// Whether a rank that reported this one has still to come where the other one is, or never will.
bool is_behind(const Progress& progress, const Progress& other);

}  // namespace lockstep
