// The link to the coordinator of a node that does not lead: a connection to the leader's launcher.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lockstep/launch/context.h"
#include "lockstep/launch/event_loop.h"
#include "lockstep/launch/network/channel.h"
#include "lockstep/launch/network/coordinator_link.h"

namespace lockstep::launch {

class Member : public CoordinatorLink {
 public:
  // Does not connect yet; on_time() tries to until the join timeout has passed. `say` gets a line
  // for the user if that takes more than kLateNodes, or half of a short join timeout.
  Member(const Context& context, EventLoop& loop,
         std::function<void(const std::string&)> say = nullptr);
  ~Member() override;

  void report(const Message& message) override;
  std::vector<Message> take_commands() override { return std::exchange(commands_, {}); }
  void on_time() override;
  [[nodiscard]] bool timed() const override { return true; }
  void on_exits(const std::vector<ChildExit>&) override {}
  bool sweep() override;
  void give_up(const std::string& why) override;
  void close(Deadline deadline) override;

 private:
  void try_to_join();
  void watch();
  void serve();
  void obey(const Message& message);
  void leave(const std::string& why);
  void lose_leader(const std::string& why);
  void reject_leader(const std::string& why);
  void end_when_stopped();

  const Context& context_;
  EventLoop& loop_;
  std::function<void(const std::string&)> say_;  // Null once it was called.
  Deadline join_deadline_;
  Deadline late_;
  Deadline next_try_;
  std::string why_not_joined_;
  Heartbeats heartbeats_;
  std::optional<Channel> channel_;
  std::string leader_;  // "node 0 'hosta'", once known.
  std::vector<Message> commands_;
  int attempt_ = -1;
  bool workers_running_ = false;
  std::optional<End> own_end_;  // Decided here, because there is no leader to decide.
};

}  // namespace lockstep::launch
