// For a fork: what belongs to its parent is not destroyed there.
#pragma once

#include <new>
#include <utility>

namespace lockstep {

// Moves it where it is never destroyed. A std::thread of the parent is not in the fork: it can be
// neither joined nor detached there, because its stack may be another's by now.
template <class T>
void keep_forever(T value) {
  new (std::nothrow) T(std::move(value));
}

}  // namespace lockstep
