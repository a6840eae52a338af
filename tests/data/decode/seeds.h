// Small images that come with the tests.
#pragma once

#include <string>

#include "lockstep/base/fd.h"

namespace lockstep::data {

inline std::string seed_file(const std::string& name) {
  return read_file(LOCKSTEP_TESTS_FOLDER "/data/decode/seeds/" + name);
}

}  // namespace lockstep::data
