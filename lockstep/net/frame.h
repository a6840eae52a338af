// What two ranks say to each other: a frame of fixed size, and bytes behind some.
//
//   opener                      listener
//     kHello  -------------------->        who it is, and the listener's token
//             <-------------------- kWelcome   with the opener's token
//             <-------------------- kYield     or: the listener's own connection counts
//   then, in both directions:
//     kMessage + bytes                     a small message
//     kOffer, kTake | kRefuse, kPayload + bytes     a large one, when it is wanted
//     kWithdrawn                           the answer to kTake where the offer is gone
//     kAsk, kTold                          how far the other rank is: its thread answers by itself
//     kBye                                 nothing comes after this; then the end of the stream
#pragma once

#include <cstdint>

namespace lockstep::net {

// As on the wire, in the byte order of the machine: all ranks run the same program.
struct Frame {
  enum class Kind : std::uint32_t {
    kHello = 1,
    kWelcome,
    kYield,
    kMessage,
    kOffer,
    kTake,
    kRefuse,  // The receiver expects another size.
    kPayload,
    kWithdrawn,
    kBye,
    kAsk,
    kTold,
  };
  static constexpr std::uint32_t kMagic = 0x6c73746e;  // Another number for another protocol.
  std::uint32_t magic = kMagic;
  Kind kind = Kind::kHello;
  std::uint64_t tag = 0;  // kHello, kWelcome: the token of the rank that reads it. kTold: how far.
  std::uint64_t bytes = 0;  // The message's size.
  std::uint64_t id = 0;     // The send's or question's number at its rank; kHello: the rank.

  [[nodiscard]] bool has_payload() const {
    return kind == Kind::kMessage || kind == Kind::kPayload;
  }
};
static_assert(sizeof(Frame) == 32);

}  // namespace lockstep::net
