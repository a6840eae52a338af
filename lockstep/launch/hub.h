// The leader's side of the node channel: accepts launchers, drops strangers, notices the lost.
//
// A stranger that is dropped is told to the user once, however often it comes back.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "lockstep/base/socket.h"
#include "lockstep/launch/channel.h"
#include "lockstep/launch/coordinator.h"
#include "lockstep/launch/event_loop.h"

namespace lockstep::launch {

struct HubHooks {
  std::function<void(PeerId, const Message&)> on_message;
  std::function<void(PeerId, const std::string& why)> on_lost;
  std::function<bool(PeerId)> is_member;
  std::function<void(const std::string& line)> note;  // Something the user may want to know.
};

class Hub {
 public:
  // `loop` must outlive the hub. A member that is silent for `node_timeout` is lost.
  Hub(EventLoop& loop, Listener listener, HubHooks hooks, std::chrono::milliseconds node_timeout);
  ~Hub();
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  // To a peer that is gone: does nothing.
  void send(PeerId peer, const Message& message);
  void on_time();
  void close(Deadline deadline);

 private:
  struct Connection {
    Channel channel;
    std::string host;
    std::string refusal;       // Why it was sent away; empty: it was not.
    bool comes_again = false;  // Told that the job is ending: nothing to tell the user.
  };

  void listen();
  void accept_one();
  void check(PeerId peer, const Connection& connection) const;
  void watch(PeerId peer);
  void serve(PeerId peer);
  void drop(PeerId peer, const std::string& why);
  void tell_once(const std::string& line);

  EventLoop& loop_;
  Listener listener_;
  HubHooks hooks_;
  std::chrono::milliseconds node_timeout_;
  bool listening_ = false;
  std::map<PeerId, Connection> connections_;
  PeerId last_peer_ = kLocalPeer;
  std::set<std::string> told_;
  Heartbeats heartbeats_;
};

}  // namespace lockstep::launch
