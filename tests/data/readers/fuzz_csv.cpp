// Whatever is in a file: a full table of finite numbers, or an IoError.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/data/readers/csv.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto table = lockstep::data::parse_csv({reinterpret_cast<const char*>(data), size}, "x");
    bool sound =
        table.rows > 0 &&
        static_cast<std::int64_t>(table.values.size()) == table.rows * table.columns &&
        (table.names.empty() || static_cast<std::int64_t>(table.names.size()) == table.columns);
    for (const double value : table.values) {
      sound = sound && std::isfinite(value);
    }
    if (!sound) {
      std::abort();
    }
  } catch (const lockstep::IoError&) {
  }
  return 0;
}
