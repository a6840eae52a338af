#include "benchmarks/loader/entropy.h"

#include <cstdio>
// libjpeg's header uses types of the one before it.
#include <jpeglib.h>

namespace lockstep::bench {

double decode_entropy(std::span<const std::byte> file) {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);  // Ends the program.
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&jpeg, TRUE);
  jvirt_barray_ptr* const coefficients = jpeg_read_coefficients(&jpeg);
  const auto common = reinterpret_cast<j_common_ptr>(&jpeg);
  const double first = jpeg.mem->access_virt_barray(common, coefficients[0], 0, 1, FALSE)[0][0][0];
  jpeg_destroy_decompress(&jpeg);
  return first;
}

std::string jpeg_version() {
  constexpr int kNumber = LIBJPEG_TURBO_VERSION_NUMBER;  // 2001005.
  return std::to_string(kNumber / 1000000) + "." + std::to_string(kNumber / 1000 % 1000) + "." +
         std::to_string(kNumber % 1000);
}

}  // namespace lockstep::bench
