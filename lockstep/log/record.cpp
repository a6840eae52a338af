#include "lockstep/log/record.h"

#include <span>

#include "lockstep/base/crc32c/crc32c.h"
#include "lockstep/base/error.h"
#include "lockstep/log/protobuf.h"

namespace lockstep::log {
namespace {

constexpr std::size_t kLength = 8;
constexpr std::size_t kSum = 4;

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

std::string frame_record(std::string_view payload) {
  std::string record = fixed64(payload.size());
  record += fixed32(masked_crc32c(record));
  record += payload;
  record += fixed32(masked_crc32c(payload));
  return record;
}

std::optional<std::string_view> RecordReader::next() {
  const auto rest = bytes_.substr(offset_);
  if (rest.size() < kLength + kSum) {
    return std::nullopt;
  }
  require_sum(rest.substr(kLength, kSum), rest.substr(0, kLength), "length");
  const std::uint64_t length = parse_fixed64(rest);
  const std::size_t available = rest.size() - kLength - kSum;
  if (available < kSum || length > available - kSum) {
    return std::nullopt;
  }
  const auto payload = rest.substr(kLength + kSum, length);
  require_sum(rest.substr(kLength + kSum + length, kSum), payload, "payload");
  offset_ += kLength + kSum + length + kSum;
  return payload;
}

void RecordReader::require_sum(std::string_view sum, std::string_view bytes,
                               const char* what) const {
  if (parse_fixed32(sum) != masked_crc32c(bytes)) {
    throw IoError("reading '" + name_ + "': the checksum of the " + what +
                  " of the record at byte " + std::to_string(offset_) +
                  " is wrong: the file is damaged from there on");
  }
}

}  // namespace lockstep::log
