// The uplink of the node that leads: the coordinator, the store and the other nodes' connections.
// A job on one node has only this, and no listener of its own.
#pragma once

#include <memory>
#include <optional>

#include "lockstep/launch/context.h"
#include "lockstep/launch/coordinator.h"
#include "lockstep/launch/hub.h"
#include "lockstep/launch/store_process.h"
#include "lockstep/launch/uplink.h"

namespace lockstep::launch {

class Leader : public Uplink {
 public:
  // `meeting_point` is where the other nodes come; nothing for a job on one node.
  Leader(const Context& context, EventLoop& loop, Consoles& consoles,
         std::optional<Listener> meeting_point);

  void report(const Message& message) override;
  std::vector<Message> take_commands() override;
  void on_time() override;
  [[nodiscard]] bool timed() const override { return hub_ != nullptr; }
  void on_exits(const std::vector<ChildExit>& exits) override;
  bool sweep() override;
  void give_up(const std::string& why) override;
  void close(Deadline deadline) override;

 private:
  int open_store();
  // Once, after kLateNodes or half of a short --join-timeout.
  void name_late_nodes();

  const Context& context_;
  Consoles& consoles_;
  StoreProcess store_;
  Coordinator coordinator_;
  std::unique_ptr<Hub> hub_;
  std::optional<Deadline> late_;  // Until the nodes that have not come are named.
};

// The same facts about this node for its leader, whoever that is.
Join introduce(const Context& context);

}  // namespace lockstep::launch
