// Stands in for png.cpp where libpng's headers were not found.
#include "lockstep/base/error.h"
#include "lockstep/data/decode/png.h"

namespace lockstep::data {

Image decode_png(std::span<const std::byte> /*file*/, std::int64_t /*max_pixels*/) {
  throw IoError(
      "PNG: this build of lockstep cannot read it, since libpng's headers were not there; "
      "install them (Debian: libpng-dev), and configure and build again");
}

std::string png_library() { return "no libpng"; }

}  // namespace lockstep::data
