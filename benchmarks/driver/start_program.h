// Starts the programs that a benchmark measures.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace lockstep::bench {

// -1: /dev/null.
struct Streams {
  int in = -1;
  int out = -1;
  int err = -1;
};

// A child that gets SIGTERM when this process dies. Throws IoError if there can be no child; one
// that cannot be executed says so on its stderr and ends with 127.
pid_t start_program(const std::vector<std::string>& command, const Streams& streams);

}  // namespace lockstep::bench
