#include "lockstep/data/readers/cifar.h"

#include <array>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/data/readers/byte_reader.h"

namespace lockstep::data {
namespace {

std::uint8_t checked_label(const ByteReader& file, std::size_t record, std::uint8_t label,
                           int classes) {
  if (label >= classes) {
    throw IoError("load_cifar '" + file.path() + "': record " + std::to_string(record) +
                  " has the label " + std::to_string(label) + ", expected 0 to " +
                  std::to_string(classes - 1) + "; is this the right file, and CIFAR-" +
                  (classes == 10 ? "10" : "100") + "?");
  }
  return label;
}

}  // namespace

void load_cifar(const std::string& path, CifarKind kind, CifarRecords& records) {
  ByteReader file(path);
  const std::size_t labels = kind == CifarKind::kCifar10 ? 1 : 2;
  std::array<std::uint8_t, 2 + kCifarImageBytes> record{};
  const auto bytes = std::span(record).first(labels + kCifarImageBytes);
  for (std::size_t i = 0;; ++i) {
    const std::size_t got = file.read(std::as_writable_bytes(bytes));
    if (got == 0 && i > 0) {
      return;
    }
    if (got < bytes.size()) {
      throw IoError("load_cifar '" + path + "': record " + std::to_string(i) + " has " +
                    std::to_string(got) + " bytes, expected " + std::to_string(bytes.size()) +
                    "; is the file whole?");
    }
    if (kind == CifarKind::kCifar10) {
      records.labels.push_back(checked_label(file, i, record[0], 10));
    } else {
      records.coarse_labels.push_back(checked_label(file, i, record[0], 20));
      records.labels.push_back(checked_label(file, i, record[1], 100));
    }
    const auto image = bytes.subspan(labels);
    records.images.insert(records.images.end(), image.begin(), image.end());
  }
}

}  // namespace lockstep::data
