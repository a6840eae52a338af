// Where a node reports to and gets its commands from: a coordinator in this process, or the
// leader's launcher at the other end of a connection.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/launch/node/worker_group.h"
#include "lockstep/launch/protocol/message.h"

namespace lockstep::launch {

class CoordinatorLink {
 public:
  CoordinatorLink() = default;
  CoordinatorLink(const CoordinatorLink&) = delete;
  CoordinatorLink& operator=(const CoordinatorLink&) = delete;
  virtual ~CoordinatorLink() = default;

  virtual void report(const Message& message) = 0;
  // Start, Stop and, last of all, End.
  virtual std::vector<Message> take_commands() = 0;
  // Called often while timed(), otherwise only now and then.
  virtual void on_time() = 0;
  [[nodiscard]] virtual bool timed() const = 0;
  virtual void on_exits(const std::vector<ChildExit>& exits) = 0;
  // Kills everything that descends from this process, except what the job still needs. False if
  // something does not die.
  virtual bool sweep() = 0;
  // Tells the other nodes that this launcher ends at once, for this reason.
  virtual void give_up(const std::string& why) = 0;
  // After End: lets the other nodes hear it.
  virtual void close(Deadline deadline) = 0;
};

}  // namespace lockstep::launch
