#include "lockstep/base/progress.h"

#include <utility>

namespace lockstep {
namespace {

constexpr int kPhaseBits = 8;
constexpr std::uint64_t kPhaseMask = (std::uint64_t{1} << kPhaseBits) - 1;

// Of the phases of a step. A rank that saves has still to go on to the next one.
int order_of(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return 1;
    case Phase::kBackward:
      return 2;
    case Phase::kSaving:
      return 3;
    case Phase::kBetweenSteps:
      return 4;
    default:
      return 0;
  }
}

}  // namespace

std::uint64_t pack_progress(const Progress& progress) {
  return progress.step << kPhaseBits | static_cast<std::uint64_t>(progress.phase);
}

Progress unpack_progress(std::uint64_t word) {
  const std::uint64_t phase = word & kPhaseMask;
  const bool known = phase <= static_cast<std::uint64_t>(Phase::kFailed);
  return {.phase = known ? static_cast<Phase>(phase) : Phase::kUnknown, .step = word >> kPhaseBits};
}

bool is_behind(const Progress& progress, const Progress& other) {
  if (progress.phase == Phase::kFailed || other.phase == Phase::kFailed) {
    return other.phase != Phase::kFailed;
  }
  return std::pair(progress.step, order_of(progress.phase)) <
         std::pair(other.step, order_of(other.phase));
}

std::string place_of(const Progress& progress) {
  const auto text = text_of(progress);
  return text.empty() ? "before its first step" : text;
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
    case Phase::kFailed:
      return "stopped by an error in or after step " + step;
    case Phase::kUnknown:
      break;
  }
  return "";
}

}  // namespace lockstep
