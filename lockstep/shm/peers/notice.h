// What ranks tell each other before they share memory: a notice on the board that all read, and a
// hello on each connection.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/shm/peers/segment_exchange.h"

namespace lockstep::shm {

struct Notice {
  std::string socket;  // Where it listens.
  std::string secret;  // What callers must know.
  pid_t pid = 0;
  std::string host_id;
  std::string host;
};

std::string new_secret();  // 32 characters. Throws IoError.

std::string notice_key(int rank);
std::string notice_text(const Notice& notice);
// Returns nothing if the text is of another version of the protocol or not a notice.
std::optional<Notice> parse_notice(const std::string& text);

// Reads all ranks' notices. Throws PeerError that names the rank if a notice is of another version
// or does not come, and UsageError if a rank is on another host than `own`.
struct Reading {
  std::string what;  // How errors begin.
  Deadline deadline;
};
std::vector<Notice> read_notices(Board& board, int size, const Notice& own, const Reading& reading);

// What a rank says when it calls another, and with its descriptor.
struct Hello {
  int rank = 0;
  std::string secret;  // The secret of the rank that is called.
};
inline constexpr std::size_t kHelloBytes = 48;
std::string hello_text(const Hello& hello);
// Returns nothing if another version of the protocol, or a stranger, wrote the text.
std::optional<Hello> parse_hello(const std::string& text);

}  // namespace lockstep::shm
