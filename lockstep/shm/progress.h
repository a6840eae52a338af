// What a rank says about itself beside its collectives, so that the errors of the others can tell
// what it was doing instead.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

enum class Phase : std::uint8_t { kUnknown, kForward, kBackward, kBetweenSteps };

struct Progress {
  Phase phase = Phase::kUnknown;
  std::uint64_t step = 0;  // Steps that it has begun.

  bool operator==(const Progress&) const = default;
};

namespace shm {

// One word of a segment; any word is read as some progress.
std::uint64_t pack(const Progress& progress);
Progress unpack(std::uint64_t word);

// "in forward of step 12"; empty if nothing was said.
std::string text_of(const Progress& progress);

}  // namespace shm
}  // namespace lockstep
