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

}  // namespace lockstep::models
