#include "benchmarks/loader/entropy.h"
#include "lockstep/base/error.h"

namespace lockstep::bench {

double decode_entropy(std::span<const std::byte> /*file*/) {
  throw UsageError(
      "there is no libjpeg to read photographs with; install libjpeg-dev and build "
      "again");
}

std::string jpeg_version() { return "missing"; }

}  // namespace lockstep::bench
