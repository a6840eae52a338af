// One connection between two launchers: sends messages, and decides when it is dead.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"
#include "lockstep/launch/network/heartbeats.h"
#include "lockstep/launch/protocol/frame.h"
#include "lockstep/launch/protocol/message.h"

namespace lockstep::launch {

class Channel {
 public:
  // `socket` is connected; the greeting is sent first.
  explicit Channel(UniqueFd socket);

  void send(const Message& message);
  // Sends as much as the other side accepts now.
  void flush();
  // Returns what has arrived, without heartbeats. Throws PeerError at the end of the stream and for
  // a reset connection, ProtocolError for bytes that no launcher sends. The error's message
  // completes "node 1 is lost: ...".
  std::vector<Message> receive();
  // Throws PeerError if the other side was silent for the limit, or does not read.
  void check(std::chrono::milliseconds silence_limit) const;

  // Closes in an orderly way: all that was sent arrives, even if the other side is still sending.
  void close(Deadline deadline);

  [[nodiscard]] int fd() const { return outbox_->fd(); }
  [[nodiscard]] bool pending() const { return outbox_->unsent() > 0; }
  // Whether something has arrived that was not received yet; the end of the stream counts.
  [[nodiscard]] bool unread() const;
  // For heartbeats.
  [[nodiscard]] const std::shared_ptr<Outbox>& outbox() const { return outbox_; }
  // Whether the other side has shown that it is a launcher of our version.
  [[nodiscard]] bool greeted() const { return reader_.greeted(); }
  [[nodiscard]] std::chrono::milliseconds age() const;

 private:
  std::shared_ptr<Outbox> outbox_;
  FrameReader reader_;
  Deadline::Clock::time_point opened_;
  Deadline::Clock::time_point last_heard_;
};

}  // namespace lockstep::launch
