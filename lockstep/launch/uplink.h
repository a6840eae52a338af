// Where a node reports to and gets its commands from: a coordinator in this process, or the
// leader's launcher at the other end of a connection.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/launch/message.h"
#include "lockstep/launch/worker_group.h"

namespace lockstep::launch {

class Uplink {
 public:
  Uplink() = default;
  Uplink(const Uplink&) = delete;
  Uplink& operator=(const Uplink&) = delete;
  virtual ~Uplink() = default;

  virtual void report(const Message& message) = 0;
  // Start, Stop and, last of all, End.
  virtual std::vector<Message> take_commands() = 0;
  // Often while timed(); otherwise only now and then.
  virtual void on_time() = 0;
  [[nodiscard]] virtual bool timed() const = 0;
  virtual void on_exits(const std::vector<ChildExit>& exits) = 0;
  // Kills everything that descends from this process, except what the job still needs. False if
  // something does not die.
  virtual bool sweep() = 0;
  // The launcher here ends at once, for this reason: tells the other nodes.
  virtual void give_up(const std::string& why) = 0;
  // After End: lets the other nodes hear it.
  virtual void close(Deadline deadline) = 0;
};

}  // namespace lockstep::launch
