// One connection between two ranks: frames in both directions, without blocking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/socket.h"

namespace lockstep::net {

// As on the wire, in the byte order of the machine: all ranks run the same program.
struct Frame {
  enum class Kind : std::uint32_t {
    kHello = 1,  // Whoever connects says who it is.
    kMessage,    // A small message: its bytes follow.
    kOffer,      // A large one, which is sent when it is wanted.
    kTake,       // It is.
    kRefuse,     // It is not: the receiver expects another size.
    kPayload,    // Its bytes follow.
    kLeft,       // Nothing comes after this.
  };
  static constexpr std::uint32_t kMagic = 0x6c73746d;
  std::uint32_t magic = kMagic;
  Kind kind = Kind::kHello;
  std::uint64_t tag = 0;    // kHello: the token of the rank that listens.
  std::uint64_t bytes = 0;  // Of the message.
  std::uint64_t id = 0;     // Of an offer; kHello: the rank.

  [[nodiscard]] bool has_payload() const {
    return kind == Kind::kMessage || kind == Kind::kPayload;
  }
};

// For one thread.
class Link {
 public:
  // Called by read().
  struct Receiver {
    // Where the payload goes that follows this frame: so many bytes as it says. Throws Error for a
    // frame that nobody who keeps to the rules sends, which ends the connection.
    std::function<std::byte*(Link&, const Frame&)> begin;
    std::function<void(Link&, const Frame&)> end;
  };

  // Begins to connect to a numeric address.
  explicit Link(const Endpoint& endpoint);
  // Was accepted.
  explicit Link(UniqueFd socket);

  // `payload` lives until `sent` is called or this ends.
  void push(const Frame& frame, std::span<const std::byte> payload = {},
            std::function<void()> sent = nullptr);
  // Connects and sends as far as it goes at once.
  void write();
  // Reads what is there.
  void read(const Receiver& receiver);
  // No more is sent; what comes is still read.
  void end_sending();
  void close(const std::string& why);

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] bool wants_to_write() const {
    return is_open() && (connecting_ || !unsent_.empty());
  }
  [[nodiscard]] bool has_unsent() const { return is_open() && !unsent_.empty(); }
  [[nodiscard]] bool is_connecting() const { return connecting_; }
  [[nodiscard]] bool is_open() const { return static_cast<bool>(socket_); }
  // Whether nobody listens there.
  [[nodiscard]] bool was_refused() const { return was_refused_; }
  // Why it is not open any more.
  [[nodiscard]] const std::string& why() const { return why_; }

  int peer = -1;  // Not known before its hello.

 private:
  struct Unsent {
    Frame frame;
    std::span<const std::byte> payload;
    std::function<void()> sent;
  };
  bool finish_connecting();
  // Reads into [data, data + bytes) from `got` on; false if it is not all there yet.
  bool fill(std::byte* data, std::size_t bytes, std::size_t& got);

  UniqueFd socket_;
  bool connecting_ = false;
  bool was_refused_ = false;
  Deadline connected_by_;
  std::string why_;
  std::deque<Unsent> unsent_;
  std::size_t sent_ = 0;  // Bytes of the first.
  Frame frame_;           // That is being read.
  std::size_t frame_got_ = 0;
  std::byte* payload_ = nullptr;
  std::size_t payload_got_ = 0;
};

}  // namespace lockstep::net
