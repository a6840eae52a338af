#include "benchmarks/loader/photos.h"
#include "lockstep/base/error.h"

namespace lockstep::bench {

void make_photos(const std::string& /*folder*/, int /*count*/) {
  throw UsageError(
      "there is no libjpeg to make photographs with; install libjpeg-dev and build again");
}

void make_large_photos(const std::string& folder, int count) { make_photos(folder, count); }

void make_small_files(const std::string& folder, int count) { make_photos(folder, count); }

}  // namespace lockstep::bench
