// Waits for what nobody tells of, such as the end of a GPU's work.
#pragma once

#include <chrono>
#include <functional>

namespace lockstep {

// Asks until the answer is yes, or for `at_most`; returns the last answer. It asks without a pause
// for a millisecond, then ten times in each.
bool ask_for(std::chrono::milliseconds at_most, const std::function<bool()>& is_done);

}  // namespace lockstep
