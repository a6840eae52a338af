// What ranks tell each other before they share memory: a notice on the board that all read, and a
// hello on each connection.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/shm/handover.h"

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
// Nothing for a text of another version of the protocol, or none of ours.
std::optional<Notice> parse_notice(const std::string& text);

// All ranks' notices. Throws PeerError, naming the rank, if one is of another version or does not
// come, UsageError if one is on another host than `own`.
struct Reading {
  std::string what;  // How errors begin.
  Deadline deadline;
};
std::vector<Notice> read_notices(Board& board, int size, const Notice& own, const Reading& reading);

// What a rank says when it calls another, and with its descriptor.
struct Hello {
  int rank = 0;
  std::string secret;  // Of the rank that it is said to.
};
inline constexpr std::size_t kHelloBytes = 48;
std::string hello_text(const Hello& hello);
// Nothing for what another version of the protocol, or a stranger, says.
std::optional<Hello> parse_hello(const std::string& text);

}  // namespace lockstep::shm
