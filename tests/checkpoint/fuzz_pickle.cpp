// Whatever is in a pickle: its tensors lie inside of their storages, and it can be written again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/pickle/reader.h"
#include "lockstep/checkpoint/pickle/writer.h"
#include "tests/checkpoint/values.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::checkpoint;
  const auto find_storage = [](const StorageName& name) {
    if (name.bytes > 1 << 16) {
      throw lockstep::IoError("no such storage");
    }
    return storage_of(std::string(name.bytes, 'x'));
  };
  const auto key_of = [](const Tensor& tensor) {
    if (!extent_fault(tensor).empty()) {
      std::abort();
    }
    return std::string("0");
  };
  std::string again;
  try {
    const Value root = read_pickle("f", std::as_bytes(std::span(data, size)), find_storage);
    again = write_pickle(root, key_of);
  } catch (const lockstep::Error&) {
    return 0;
  }
  const Value root = read_pickle("g", as_bytes(again), find_storage);  // What we write, we read.
  if (write_pickle(root, key_of) != again) {
    std::abort();
  }
  return 0;
}
