// What is inside of a checkpoint, as text for people.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/checkpoint/read.h"

namespace lockstep::checkpoint {

struct DescribeOptions {
  std::size_t items = 8;  // Items that are shown of a list.
};

// A line for each value, indented as it is nested. Characters that a terminal would obey are
// replaced.
std::string describe(const Document& document, const DescribeOptions& options = {});

}  // namespace lockstep::checkpoint
