// Whatever bytes a connection delivers, in whatever pieces: messages or a PeerError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/launch/protocol/frame.h"
#include "lockstep/launch/protocol/message.h"

namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void check_stream(std::string_view bytes) {
  lockstep::launch::FrameReader reader;
  reader.feed(lockstep::launch::greeting());
  try {
    while (!bytes.empty()) {
      reader.feed(bytes.substr(0, 7));
      bytes.remove_prefix(std::min<std::size_t>(7, bytes.size()));
      while (const auto payload = reader.next()) {
        require(payload->size() <= lockstep::launch::kMostMessageBytes);
      }
    }
  } catch (const lockstep::PeerError&) {
  }
}

void check_message(std::string_view json) {
  try {
    // What can be read can be written, and means the same.
    const std::string once = lockstep::launch::encode(lockstep::launch::decode(json));
    require(lockstep::launch::encode(lockstep::launch::decode(once)) == once);
  } catch (const lockstep::PeerError&) {
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_stream(bytes);
  check_message(bytes);
  return 0;
}
