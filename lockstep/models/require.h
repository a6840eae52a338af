// What the options of all networks have in common: sizes that must be positive.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::models {

// Throws UsageError naming the network and the option.
inline void require_positive(const std::string& network, const std::string& option,
                             std::int64_t value) {
  if (value < 1) {
    throw UsageError(network + ": " + option + " is " + std::to_string(value) +
                     ", expected at least 1");
  }
}

struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

// Throws UsageError naming the network and both sizes: its pooling would leave nothing of a smaller
// image.
inline void require_at_least(std::int64_t pixels, const std::string& network,
                             const ImageSize& size) {
  if (size.height < pixels || size.width < pixels) {
    throw UsageError(network + ": images of " + std::to_string(size.height) + "x" +
                     std::to_string(size.width) + ", expected at least " + std::to_string(pixels) +
                     "x" + std::to_string(pixels));
  }
}

}  // namespace lockstep::models
