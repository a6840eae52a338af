// Waiting for something that no collective makes, such as the end of a GPU's work.
#pragma once

#include <functional>
#include <string>

#include "lockstep/base/deadline.h"

namespace lockstep::comm {

// Where nothing is known of the other ranks: waits until is_done(), which is asked often, and
// throws PeerError at the deadline.
void wait_alone(const std::string& what, const std::function<bool()>& is_done,
                const Deadline& deadline);

}  // namespace lockstep::comm
