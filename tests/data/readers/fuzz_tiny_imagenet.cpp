// Whatever is in a file: a name without folders and a class for each line, each name once, or an
// IoError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/data/readers/tiny_imagenet.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto annotations =
        lockstep::data::parse_val_annotations({reinterpret_cast<const char*>(data), size}, "x");
    std::set<std::string> files;
    std::int64_t line = 0;
    for (const auto& annotation : annotations) {
      const bool sound = !annotation.file.empty() && annotation.file != ".." &&
                         annotation.file.find('/') == std::string::npos &&
                         annotation.file.find('\0') == std::string::npos &&
                         !annotation.class_name.empty() && annotation.line > line &&
                         files.insert(annotation.file).second;
      line = annotation.line;
      if (!sound) {
        std::abort();
      }
    }
    if (annotations.empty()) {
      std::abort();
    }
  } catch (const lockstep::IoError&) {
  }
  return 0;
}
