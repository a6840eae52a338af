#include "lockstep/base/progress.h"

namespace lockstep {
namespace {

constexpr int kPhaseBits = 8;
constexpr std::uint64_t kPhaseMask = (std::uint64_t{1} << kPhaseBits) - 1;

}  // namespace

std::uint64_t pack_progress(const Progress& progress) {
  return progress.step << kPhaseBits | static_cast<std::uint64_t>(progress.phase);
}

Progress unpack_progress(std::uint64_t word) {
  const std::uint64_t phase = word & kPhaseMask;
  const bool known = phase <= static_cast<std::uint64_t>(Phase::kSaving);
  return {.phase = known ? static_cast<Phase>(phase) : Phase::kUnknown, .step = word >> kPhaseBits};
}

std::string text_of(const Progress& progress) {
  const std::string step = std::to_string(progress.step);
  switch (progress.phase) {
    case Phase::kForward:
      return "in forward of step " + step;
    case Phase::kBackward:
      return "in backward of step " + step;
    case Phase::kBetweenSteps:
      return "past step " + step;
    case Phase::kSaving:
      return "saving the checkpoint of step " + step;
    case Phase::kUnknown:
      break;
  }
  return "";
}

}  // namespace lockstep
