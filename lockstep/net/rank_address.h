// What a rank must know of another to reach it.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/sockets/socket.h"

namespace lockstep::net {

struct RankAddress {
  Endpoint endpoint;
  // Random, for this rank in this group: only ranks of the group know it.
  std::uint64_t token = 0;

  [[nodiscard]] std::string to_text() const;
  // Throws PeerError for text that is none.
  static RankAddress from_text(const std::string& text);
};

// 64 bits from the kernel. Throws IoError if it gives none.
std::uint64_t random_token();

}  // namespace lockstep::net
