#include "lockstep/data/readers/idx.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/data/readers/byte_reader.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kFirstBytes = std::size_t{1} << 16;

[[noreturn]] void refuse(const ByteReader& file, const std::string& what) {
  throw IoError("read_idx '" + file.path() + "': " + what + "; is this the right file, and whole?");
}

std::size_t element_bytes(IdxType type) {
  switch (type) {
    case IdxType::kUint8:
    case IdxType::kInt8:
      return 1;
    case IdxType::kInt16:
      return 2;
    case IdxType::kInt32:
    case IdxType::kFloat32:
      return 4;
    case IdxType::kFloat64:
      return 8;
  }
  return 0;  // Not a type.
}

std::array<std::uint8_t, 4> read_word(ByteReader& file) {
  std::array<std::uint8_t, 4> word{};
  if (file.read(std::as_writable_bytes(std::span(word))) != word.size()) {
    refuse(file, "the file ends at byte " + std::to_string(file.offset()) +
                     ", inside the header; expected 4 bytes and 4 for each dimension");
  }
  return word;
}

std::string shape_text(const std::vector<std::int64_t>& sizes) {
  std::vector<std::string> numbers;
  for (const std::int64_t size : sizes) {
    numbers.push_back(std::to_string(size));
  }
  return join(numbers, "x");
}

// Sets type and sizes; returns how many bytes the elements have.
std::size_t read_header(ByteReader& file, IdxArray& array) {
  const auto magic = read_word(file);
  array.type = IdxType{magic[2]};
  if (magic[0] != 0 || magic[1] != 0 || element_bytes(array.type) == 0 || magic[3] == 0) {
    refuse(file, "the file starts with " + std::to_string(magic[0]) + " " +
                     std::to_string(magic[1]) + " " + std::to_string(magic[2]) + " " +
                     std::to_string(magic[3]) +
                     ", expected 0 0, an idx type (8, 9, 11 to 14) and 1 to 255 dimensions");
  }
  // An empty dimension does not hide the others: strides are products too.
  std::uint64_t most = element_bytes(array.type);
  bool empty = false;
  for (int i = 0; i < magic[3]; ++i) {
    const auto word = read_word(file);
    const std::uint64_t size =
        std::uint64_t{word[0]} << 24 | word[1] << 16 | word[2] << 8 | word[3];
    array.sizes.push_back(static_cast<std::int64_t>(size));
    empty = empty || size == 0;
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (most > kMost / std::max<std::uint64_t>(size, 1)) {
      refuse(file, "the header announces " + shape_text(array.sizes) +
                       " elements and more, expected less than 2^63 bytes");
    }
    most *= std::max<std::uint64_t>(size, 1);
  }
  return empty ? 0 : most;
}

// Memory follows what has been read: the header may lie.
std::vector<std::byte> read_elements(ByteReader& file, const IdxArray& array, std::size_t bytes) {
  std::vector<std::byte> elements;
  while (elements.size() < bytes) {
    const std::size_t have = elements.size();
    elements.resize(have + std::min(bytes - have, std::max(have, kFirstBytes)));
    const std::size_t got = file.read(std::span(elements).subspan(have));
    if (have + got < elements.size()) {
      refuse(file, "the header announces " + shape_text(array.sizes) + " elements, " +
                       std::to_string(bytes) + " bytes, and the data end after " +
                       std::to_string(have + got) + ", at byte " + std::to_string(file.offset()));
    }
  }
  return elements;
}

void expect_end(ByteReader& file, const IdxArray& array) {
  std::byte next{};
  const std::uint64_t end = file.offset();
  if (file.read({&next, 1}) != 0) {
    refuse(file, "the header announces " + shape_text(array.sizes) +
                     " elements, which end at byte " + std::to_string(end) +
                     ", and more data follow");
  }
}

void to_native_order(IdxArray& array) {
  const std::size_t width = element_bytes(array.type);
  if (std::endian::native == std::endian::big || width == 1) {
    return;
  }
  for (auto element = array.bytes.begin(); element != array.bytes.end();) {
    const auto next = element + static_cast<std::ptrdiff_t>(width);
    std::reverse(element, next);
    element = next;
  }
}

}  // namespace

IdxArray load_idx(const std::string& path) {
  ByteReader file(path);
  IdxArray array;
  const std::size_t bytes = read_header(file, array);
  array.bytes = read_elements(file, array, bytes);
  expect_end(file, array);
  to_native_order(array);
  return array;
}

}  // namespace lockstep::data
