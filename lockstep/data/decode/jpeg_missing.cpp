// Stands in for jpeg.cpp where libjpeg's headers were not found.
#include "lockstep/base/error.h"
#include "lockstep/data/decode/jpeg.h"

namespace lockstep::data {
namespace {

[[noreturn]] void refuse_jpeg() {
  throw IoError(
      "JPEG: this build of lockstep cannot read it, since libjpeg's headers were not there; "
      "install them (Debian: libjpeg-dev), and configure and build again");
}

}  // namespace

Image decode_jpeg(std::span<const std::byte> /*file*/, std::int64_t /*max_pixels*/) {
  refuse_jpeg();
}

std::string jpeg_library() { return "no libjpeg"; }

DecodedPart decode_jpeg_part(std::span<const std::byte> /*file*/,
                             const std::function<WantedPart(Size)>& /*choose*/,
                             const DecodeOptions& /*options*/) {
  refuse_jpeg();
}

}  // namespace lockstep::data
