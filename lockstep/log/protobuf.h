// The few parts of protobuf's wire format that event files are made of.
//
// Written by hand: LibTorch exports protobuf symbols of its own, which a libprotobuf would meet.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::log {

// A message, field by field; the caller adds them in the order of their numbers, as protobuf does.
class ProtoWriter {
 public:
  void add_varint(int field, std::uint64_t value);
  void add_double(int field, double value);
  void add_float(int field, float value);
  void add_bytes(int field, std::string_view bytes);  // A string or a message, too.
  void add_doubles(int field,
                   std::span<const double> values);  // Packed; nothing if there are none.

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void add_tag(int field, int wire_type);

  std::string bytes_;
};

// Goes through the fields of a message; those of unknown numbers are for the caller to ignore.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view message) : rest_(message) {}

  // False at the end. Throws IoError if the bytes are no message.
  bool next();

  [[nodiscard]] int field() const { return field_; }
  // Throw IoError if the field has another wire type.
  [[nodiscard]] std::uint64_t as_varint() const;
  [[nodiscard]] double as_double() const;
  [[nodiscard]] float as_float() const;
  [[nodiscard]] std::string_view as_bytes() const;

 private:
  [[nodiscard]] std::uint64_t take_varint();
  [[nodiscard]] std::string_view take(std::uint64_t count);
  void require(int wire_type) const;

  std::string_view rest_;
  int field_ = 0;
  int wire_type_ = 0;
  std::uint64_t number_ = 0;
  std::string_view bytes_;
};

// Integers of fixed size, least significant byte first.
std::string fixed32(std::uint32_t value);
std::string fixed64(std::uint64_t value);
// `bytes` holds at least 4, or 8.
std::uint32_t parse_fixed32(std::string_view bytes);
std::uint64_t parse_fixed64(std::string_view bytes);

}  // namespace lockstep::log
