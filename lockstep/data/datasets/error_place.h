// Says in an error where it happened: at which batch, sample or file.
#pragma once

#include <exception>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::data {

// Throws the exception that is being handled once more, with `place` in front of its text. Errors
// of lockstep keep their type (those derived from the three lose what they add); others are nested
// in an Error, and stay nested there if it gets another place.
[[noreturn]] void rethrow_with_place(const std::string& place);

// What `make` gives. What it throws has the text of `place()` in front, which is made then alone.
template <class Place, class Function>
auto with_place(const Place& place, const Function& make) {
  try {
    return make();
  } catch (...) {
    rethrow_with_place(place());
  }
}

}  // namespace lockstep::data
