#include "lockstep/log/protobuf.h"

#include <bit>

#include "lockstep/base/error.h"

namespace lockstep::log {
namespace {

// https://protobuf.dev/programming-guides/encoding
constexpr int kVarint = 0;
constexpr int kFixed64 = 1;
constexpr int kBytes = 2;
constexpr int kFixed32 = 5;

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>(value | 0x80);
  }
  return bytes + static_cast<char>(value);
}

std::uint64_t parse_fixed(std::string_view bytes, int count) {
  std::uint64_t value = 0;
  for (int i = count; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
  }
  return value;
}

std::string fixed(std::uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes += static_cast<char>(value >> (8 * i));
  }
  return bytes;
}

}  // namespace

std::string fixed32(std::uint32_t value) { return fixed(value, 4); }
std::string fixed64(std::uint64_t value) { return fixed(value, 8); }
std::uint32_t parse_fixed32(std::string_view bytes) {
  return static_cast<std::uint32_t>(parse_fixed(bytes, 4));
}
std::uint64_t parse_fixed64(std::string_view bytes) { return parse_fixed(bytes, 8); }

void ProtoWriter::add_tag(int field, int wire_type) {
  bytes_ += varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire_type));
}

void ProtoWriter::add_varint(int field, std::uint64_t value) {
  add_tag(field, kVarint);
  bytes_ += varint(value);
}

void ProtoWriter::add_double(int field, double value) {
  add_tag(field, kFixed64);
  bytes_ += fixed64(std::bit_cast<std::uint64_t>(value));
}

void ProtoWriter::add_float(int field, float value) {
  add_tag(field, kFixed32);
  bytes_ += fixed32(std::bit_cast<std::uint32_t>(value));
}

void ProtoWriter::add_bytes(int field, std::string_view bytes) {
  add_tag(field, kBytes);
  bytes_ += varint(bytes.size());
  bytes_ += bytes;
}

void ProtoWriter::add_doubles(int field, std::span<const double> values) {
  if (values.empty()) {
    return;
  }
  std::string packed;
  for (const double value : values) {
    packed += fixed64(std::bit_cast<std::uint64_t>(value));
  }
  add_bytes(field, packed);
}

std::uint64_t ProtoReader::take_varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1)[0]);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      return value;
    }
  }
  throw IoError("a number of more than 10 bytes");
}

std::string_view ProtoReader::take(std::uint64_t count) {
  if (count > rest_.size()) {
    throw IoError("a field of " + std::to_string(count) + " bytes where " +
                  std::to_string(rest_.size()) + " are left");
  }
  const auto taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

bool ProtoReader::next() {
  if (rest_.empty()) {
    return false;
  }
  const std::uint64_t tag = take_varint();
  constexpr std::uint64_t kLargestField = (1U << 29) - 1;
  if (tag >> 3 == 0 || tag >> 3 > kLargestField) {
    throw IoError("a field of number " + std::to_string(tag >> 3));
  }
  field_ = static_cast<int>(tag >> 3);
  wire_type_ = static_cast<int>(tag & 7);
  switch (wire_type_) {
    case kVarint:
      number_ = take_varint();
      return true;
    case kFixed64:
      number_ = parse_fixed64(take(8));
      return true;
    case kFixed32:
      number_ = parse_fixed32(take(4));
      return true;
    case kBytes:
      bytes_ = take(take_varint());
      return true;
    default:
      throw IoError("field " + std::to_string(field_) + " of wire type " +
                    std::to_string(wire_type_));
  }
}

void ProtoReader::require(int wire_type) const {
  if (wire_type_ != wire_type) {
    throw IoError("field " + std::to_string(field_) + " of wire type " +
                  std::to_string(wire_type_) + ", expected " + std::to_string(wire_type));
  }
}

std::uint64_t ProtoReader::as_varint() const {
  require(kVarint);
  return number_;
}

double ProtoReader::as_double() const {
  require(kFixed64);
  return std::bit_cast<double>(number_);
}

float ProtoReader::as_float() const {
  require(kFixed32);
  return std::bit_cast<float>(static_cast<std::uint32_t>(number_));
}

std::string_view ProtoReader::as_bytes() const {
  require(kBytes);
  return bytes_;
}

}  // namespace lockstep::log
