#include "lockstep/launch/protocol/frame.h"

#include <algorithm>

#include "lockstep/launch/protocol/message.h"

namespace lockstep::launch {
namespace {

constexpr std::string_view kMagic = "LOCKSTEP";

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>((value >> shift) & 0xFF);
  }
  return bytes;
}

std::uint32_t read_big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes.substr(0, 4)) {
    value = value << 8 | static_cast<unsigned char>(byte);
  }
  return value;
}

}  // namespace

std::string greeting(std::uint32_t version) { return std::string(kMagic) + big_endian(version); }

std::string frame(std::string_view payload) {
  return big_endian(static_cast<std::uint32_t>(payload.size())) + std::string(payload);
}

std::optional<std::string> FrameReader::next() {
  if (!greeted_) {
    const auto known = std::min(buffer_.size(), kMagic.size());
    if (buffer_.compare(0, known, kMagic, 0, known) != 0) {
      throw ProtocolError("the other side is not a lockstep launcher");
    }
    if (buffer_.size() < kMagic.size() + 4) {
      return std::nullopt;
    }
    const auto version = read_big_endian(std::string_view(buffer_).substr(kMagic.size()));
    if (version != kProtocolVersion) {
      throw ProtocolError("the other launcher speaks version " + std::to_string(version) +
                          " of the protocol, this one version " + std::to_string(kProtocolVersion) +
                          "; install the same lockstep on all nodes");
    }
    buffer_.erase(0, kMagic.size() + 4);
    greeted_ = true;
  }
  if (buffer_.size() < 4) {
    return std::nullopt;
  }
  const std::size_t length = read_big_endian(buffer_);
  if (length > kMostMessageBytes) {
    throw ProtocolError("a message of " + std::to_string(length) +
                        " bytes was announced, at most " + std::to_string(kMostMessageBytes) +
                        " are allowed");
  }
  if (buffer_.size() < 4 + length) {
    return std::nullopt;
  }
  std::string payload = buffer_.substr(4, length);
  buffer_.erase(0, 4 + length);
  return payload;
}

}  // namespace lockstep::launch
