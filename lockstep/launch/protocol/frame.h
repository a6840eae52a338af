// Cuts a byte stream between launchers into messages.
//
//   stream  = "LOCKSTEP" version frame*      version: 4 bytes, big-endian
//   frame   = length byte{length}            length:  4 bytes, big-endian, at most
//   kMostMessageBytes
//
// Lengths are checked before anything is allocated for them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"

namespace lockstep::launch {

// The other side is not a launcher of our version, so trying again is useless.
class ProtocolError : public PeerError {
 public:
  using PeerError::PeerError;
};

inline constexpr std::uint32_t kProtocolVersion = 4;

// What each side sends first.
std::string greeting(std::uint32_t version = kProtocolVersion);

std::string frame(std::string_view payload);

class FrameReader {
 public:
  void feed(std::string_view bytes) { buffer_ += bytes; }

  // Returns the next payload, or nothing until it is complete. Throws ProtocolError for a stream
  // that is not a launcher's, of another version, or with a length over the limit; the connection
  // is then useless.
  std::optional<std::string> next();

  [[nodiscard]] bool greeted() const { return greeted_; }

 private:
  std::string buffer_;
  bool greeted_ = false;
};

}  // namespace lockstep::launch
