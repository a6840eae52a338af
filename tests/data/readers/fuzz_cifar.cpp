// Whatever is in a file: an image and labels in range for each record, or an IoError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/data/readers/cifar.h"
#include "tests/data/files.h"

namespace {

void check(std::string_view content, lockstep::data::CifarKind kind) {
  const lockstep::data::MemoryFile file(content);
  lockstep::data::CifarRecords records;
  try {
    lockstep::data::load_cifar(file.path(), kind, records);
  } catch (const lockstep::IoError&) {
    return;
  }
  const bool ten = kind == lockstep::data::CifarKind::kCifar10;
  if (records.images.size() != records.labels.size() * lockstep::data::kCifarImageBytes ||
      records.coarse_labels.size() != (ten ? 0 : records.labels.size())) {
    std::abort();
  }
  for (const auto label : records.labels) {
    if (label >= (ten ? 10 : 100)) {
      std::abort();
    }
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  // A record is long: each byte of the input becomes one's labels, cut at the end by the last byte.
  std::string records;
  for (const std::uint8_t byte : std::string_view(input).substr(0, 4)) {
    records += std::string{static_cast<char>(byte % 11), static_cast<char>(byte % 103)};
    records.append(lockstep::data::kCifarImageBytes - (size % 2), static_cast<char>(byte));
  }
  if (size > 0 && data[size - 1] % 4 == 0) {
    records.resize(records.size() - data[size - 1]);
  }
  for (const auto kind :
       {lockstep::data::CifarKind::kCifar10, lockstep::data::CifarKind::kCifar100}) {
    check(input, kind);
    check(records, kind);
  }
  return 0;
}
