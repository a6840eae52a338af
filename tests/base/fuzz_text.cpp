// Whatever text a user or a scheduler hands over, the parsers answer or throw a UsageError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/socket.h"
#include "lockstep/base/text/text.h"

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void check_endpoint(std::string_view text) {
  try {
    const lockstep::Endpoint endpoint = lockstep::parse_endpoint(text, "--input");
    require(!endpoint.host.empty() && endpoint.port >= 1 && endpoint.port <= 65535);
    const lockstep::Endpoint again =
        lockstep::parse_endpoint(lockstep::to_text(endpoint), "--input");
    require(again.host == endpoint.host && again.port == endpoint.port);
  } catch (const lockstep::UsageError& error) {
    require(std::string_view(error.what()).starts_with("--input is '"));
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_endpoint(text);
  require(lockstep::join(lockstep::split(text, ','), ",") == text);
  require(lockstep::trim(lockstep::trim(text)) == lockstep::trim(text));
  if (const auto number = lockstep::parse_int(text)) {
    require(lockstep::parse_int(std::to_string(*number)) == number);
  }
  return 0;
}
