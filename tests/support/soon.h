#pragma once

#include "lockstep/base/deadline.h"

namespace lockstep::testing {

// For what takes milliseconds unless it hangs.
inline Deadline soon() { return Deadline::in(std::chrono::seconds(60)); }

}  // namespace lockstep::testing
