// One connection between two launchers: messages, heartbeats, and the verdict that it is dead.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"
#include "lockstep/launch/frame.h"
#include "lockstep/launch/message.h"

namespace lockstep::launch {

inline constexpr std::chrono::milliseconds kHeartbeatInterval{500};
inline constexpr std::chrono::milliseconds kSilenceLimit{3500};

class Channel {
 public:
  // `socket` is connected; the greeting is sent first.
  explicit Channel(UniqueFd socket);

  void send(const Message& message);
  // Sends what the other side takes now.
  void flush();
  // What has arrived, without heartbeats. Throws PeerError at the end of the stream, for a reset
  // connection and for bytes that are not ours; the message completes "node 1 is lost: ...".
  std::vector<Message> receive();
  // Sends a heartbeat when one is due. Throws PeerError if the other side was silent too long.
  void on_time();

  // Says goodbye in order: all that was sent arrives, even if the other side is still sending.
  void close(Deadline deadline);

  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] bool pending() const { return !unsent_.empty(); }
  // Whether the other side has shown that it is a launcher of our version.
  [[nodiscard]] bool greeted() const { return reader_.greeted(); }
  [[nodiscard]] std::chrono::milliseconds age() const;

 private:
  UniqueFd socket_;
  FrameReader reader_;
  std::string unsent_;
  Deadline::Clock::time_point opened_;
  Deadline::Clock::time_point last_heard_;
  Deadline::Clock::time_point last_sent_;
};

}  // namespace lockstep::launch
