// The link to the coordinator of the node that leads: the coordinator, the store and the other
// nodes' connections. A job on one node has only this, and no listener of its own.
#pragma once

#include <memory>
#include <optional>

#include "lockstep/launch/context.h"
#include "lockstep/launch/job/coordinator.h"
#include "lockstep/launch/network/coordinator_link.h"
#include "lockstep/launch/network/node_server.h"
#include "lockstep/launch/node/store_process.h"

namespace lockstep::launch {

class Leader : public CoordinatorLink {
 public:
  // `meeting_point` is where the other nodes connect; nothing for a job on one node.
  Leader(const Context& context, EventLoop& loop, Consoles& consoles,
         std::optional<Listener> meeting_point);

  void report(const Message& message) override;
  std::vector<Message> take_commands() override;
  void on_time() override;
  [[nodiscard]] bool timed() const override { return node_server_ != nullptr; }
  void on_exits(const std::vector<ChildExit>& exits) override;
  bool sweep() override;
  void give_up(const std::string& why) override;
  void close(Deadline deadline) override;

 private:
  int open_store();
  // Prints the missing nodes, once, after kLateNodes or half of a short --join-timeout.
  void name_late_nodes();

  const Context& context_;
  Consoles& consoles_;
  StoreProcess store_;
  Coordinator coordinator_;
  std::unique_ptr<NodeServer> node_server_;
  std::optional<Deadline> late_;  // Until the nodes that have not come are named.
};

// What this node tells its leader about itself, whether the leader is here or elsewhere.
Join introduce(const Context& context);

}  // namespace lockstep::launch
