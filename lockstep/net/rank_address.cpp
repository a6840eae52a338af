#include "lockstep/net/rank_address.h"

#include <sys/random.h>

#include <charconv>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/text/text.h"

namespace lockstep::net {

std::string RankAddress::to_text() const {
  return lockstep::to_text(endpoint) + " " + std::to_string(token);
}

RankAddress RankAddress::from_text(const std::string& text) {
  const auto words = split(text, ' ');
  RankAddress address;
  try {
    if (words.size() != 2) {
      throw UsageError("it has " + std::to_string(words.size()) + " words");
    }
    address.endpoint = parse_endpoint(words[0], "the address of a rank");
    const char* end = words[1].data() + words[1].size();
    const auto [rest, error] = std::from_chars(words[1].data(), end, address.token);
    if (error != std::errc() || rest != end) {
      throw UsageError("'" + words[1] + "' is no token");
    }
  } catch (const UsageError& error) {
    throw PeerError("a rank says that messages reach it at '" + text +
                    "', expected ADDRESS:PORT TOKEN (" + error.what() +
                    "); do all ranks run the same version?");
  }
  return address;
}

std::uint64_t random_token() {
  std::uint64_t token = 0;
  if (::getrandom(&token, sizeof token, 0) != static_cast<ssize_t>(sizeof token)) {
    throw_errno("getrandom for the token of a group");
  }
  return token;
}

}  // namespace lockstep::net
