// One connection between two ranks: frames in both directions, without blocking.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/fd.h"
#include "lockstep/base/sockets/socket.h"
#include "lockstep/net/frame.h"

namespace lockstep::net {

// For one thread.
class Link {
 public:
  // Called by read().
  struct Receiver {
    // Returns where the payload of this frame goes: memory for as many bytes as the frame says, or
    // null if nobody wants it. Called again in each turn in which more of the payload comes,
    // because the owner of an address may have given it away since. Throws Error for a frame that
    // breaks the protocol; that ends the connection.
    std::function<std::byte*(const Frame&)> begin;
    // The frame and its payload are here. False: nothing more is read in this turn.
    std::function<bool(const Frame&)> end;
  };

  // Begins to connect to a numeric address.
  explicit Link(const Endpoint& endpoint);
  // Was accepted.
  explicit Link(UniqueFd socket);
  ~Link() { close(""); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // `payload` lives, and stays as it is, until `sent` is called, it is taken back or this ends.
  void push(const Frame& frame, std::span<const std::byte> payload = {},
            std::function<void()> sent = nullptr);
  // Takes back the frames that are not being sent yet, and returns them. A frame that is already
  // being sent goes out from a copy. `sent` is called for neither.
  std::vector<Frame> take_back(const std::function<bool(const Frame&)>& which);
  // Both go as far as they can at once, and no further than kTurnBytes: a link that always has
  // something to do does not keep the others waiting.
  static constexpr std::size_t kTurnBytes = std::size_t{1} << 20;
  void write();
  void read(const Receiver& receiver);
  // Once poll() has something to say of one that is connecting.
  void finish_connecting();
  // When all is sent that was pushed, the other side reads the end; what comes is still read. The
  // kernel then takes more than it did before, although the other side reads nothing, and goes on
  // sending it after the end of this.
  void end_sending();
  // Closes it if the other host's kernel has not answered for about 3 s. One that only reads
  // nothing answers.
  void close_if_silent();
  void close(const std::string& why);

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] short events(bool reads) const;
  [[nodiscard]] bool is_connecting() const { return connecting_; }
  [[nodiscard]] bool is_open() const { return static_cast<bool>(socket_); }
  // Whether nobody listens there.
  [[nodiscard]] bool was_refused() const { return was_refused_; }
  // Whether there was no socket for it: that says nothing of the other rank.
  [[nodiscard]] bool had_no_socket() const { return had_no_socket_; }
  // Why it is not open any more.
  [[nodiscard]] const std::string& why() const { return why_; }
  // Counts the bytes that the other host's kernel has taken: bytes that wait in this host's kernel
  // are no progress.
  [[nodiscard]] std::size_t bytes_sent() const;

 private:
  struct Unsent {
    Frame frame;
    std::span<const std::byte> payload;
    std::function<void()> sent;
    std::vector<std::byte> copy = {};  // What `payload` is then.
  };
  void refuse(int error);
  // Writes some of the first unsent frame; false if the kernel takes no more.
  bool write_some(std::size_t& budget);
  // Reads into [data, data + bytes) from `got` on, or nowhere; false if it is not all there yet.
  bool fill(std::byte* data, std::size_t bytes, std::size_t& got, std::size_t& budget);

  UniqueFd socket_;
  bool connecting_ = false;
  bool was_refused_ = false;
  bool had_no_socket_ = false;
  bool is_deaf_ = false;  // Nothing can be sent any more; what it sent is still read.
  bool ends_ = false;
  bool has_ended_ = false;
  std::string why_;
  std::deque<Unsent> unsent_;
  std::size_t sent_ = 0;  // Bytes of the first.
  std::size_t bytes_sent_ = 0;
  Frame frame_;  // The one that is being read.
  std::size_t frame_got_ = 0;
  std::size_t payload_got_ = 0;
};

}  // namespace lockstep::net
