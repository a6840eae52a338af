// The binary files of CIFAR-10 and CIFAR-100, as bytes.
//
// A record is one label (CIFAR-100: the coarse one, then the fine one) and 3 x 32 x 32 bytes: all
// of red, then green, then blue. A file has nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

enum class CifarKind { kCifar10, kCifar100 };

constexpr std::int64_t kCifarImageBytes = std::int64_t{3} * 32 * 32;

struct CifarRecords {
  std::vector<std::uint8_t> images;         // kCifarImageBytes for each label.
  std::vector<std::uint8_t> labels;         // CIFAR-100: the fine ones, 0 to 99.
  std::vector<std::uint8_t> coarse_labels;  // CIFAR-100 alone, 0 to 19.
};

// Appends the records of a plain or gzip file. Throws IoError naming path and place if the file is
// cut off or a label is none.
void load_cifar(const std::string& path, CifarKind kind, CifarRecords& records);

}  // namespace lockstep::data
