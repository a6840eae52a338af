// The leader's side of the connections between nodes: accepts launchers, drops strangers, notices
// lost nodes.
//
// The user is told about a dropped stranger once, however often it comes back.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "lockstep/base/sockets/socket.h"
#include "lockstep/launch/event_loop.h"
#include "lockstep/launch/job/coordinator.h"
#include "lockstep/launch/network/channel.h"

namespace lockstep::launch {

struct NodeServerHooks {
  std::function<void(PeerId, const Message&)> on_message;
  std::function<void(PeerId, const std::string& why)> on_lost;
  std::function<bool(PeerId)> is_member;
  std::function<void(const std::string& line)> note;  // Something the user may want to know.
};

class NodeServer {
 public:
  // `loop` must outlive the server. A member that is silent for `node_timeout` is lost.
  NodeServer(EventLoop& loop, Listener listener, NodeServerHooks hooks,
             std::chrono::milliseconds node_timeout);
  ~NodeServer();
  NodeServer(const NodeServer&) = delete;
  NodeServer& operator=(const NodeServer&) = delete;

  // Does nothing if the peer is gone.
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
  NodeServerHooks hooks_;
  std::chrono::milliseconds node_timeout_;
  bool listening_ = false;
  std::map<PeerId, Connection> connections_;
  PeerId last_peer_ = kLocalPeer;
  std::set<std::string> told_;
  Heartbeats heartbeats_;
};

}  // namespace lockstep::launch
