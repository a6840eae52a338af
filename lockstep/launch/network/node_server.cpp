#include "lockstep/launch/network/node_server.h"

#include <cerrno>
#include <system_error>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/launch/job/report.h"
#include "lockstep/launch/time_limits.h"

namespace lockstep::launch {
namespace {

constexpr std::size_t kMostConnections = 1024;
constexpr std::size_t kMostTold = 100;

}  // namespace

NodeServer::NodeServer(EventLoop& loop, Listener listener, NodeServerHooks hooks,
                       std::chrono::milliseconds node_timeout)
    : loop_(loop),
      listener_(std::move(listener)),
      hooks_(std::move(hooks)),
      node_timeout_(node_timeout) {
  set_nonblocking(listener_.fd.get());
  listen();
}

void NodeServer::listen() {
  listening_ = true;
  loop_.watch(listener_.fd.get(), POLLIN, [this] { accept_one(); });
}

NodeServer::~NodeServer() {
  loop_.forget(listener_.fd.get());
  for (const auto& [peer, connection] : connections_) {
    loop_.forget(connection.channel.fd());
  }
}

void NodeServer::accept_one() {
  Accepted accepted = accept_on(listener_);
  const int error = errno;
  if (!accepted.fd) {
    // The connection stays in the queue and the socket ready, so without a pause we would spin.
    listening_ = false;
    loop_.forget(listener_.fd.get());
    if (error == EMFILE || error == ENFILE) {
      tell_once("a node that wants to join has to wait: " + std::generic_category().message(error));
    }
    return;
  }
  if (connections_.size() >= kMostConnections) {
    return;
  }
  const PeerId peer = ++last_peer_;
  Channel channel(std::move(accepted.fd));
  heartbeats_.add(channel.outbox());
  connections_.emplace(peer, Connection{std::move(channel), accepted.host});
  watch(peer);
}

void NodeServer::watch(PeerId peer) {
  const Channel& channel = connections_.at(peer).channel;
  const short events = static_cast<short>(POLLIN | (channel.pending() ? POLLOUT : 0));
  loop_.watch(channel.fd(), events, [this, peer] { serve(peer); });
}

void NodeServer::serve(PeerId peer) {
  try {
    Channel& channel = connections_.at(peer).channel;
    channel.flush();
    for (const auto& message : channel.receive()) {
      hooks_.on_message(peer, message);
    }
    watch(peer);
  } catch (const PeerError& error) {
    drop(peer, error.what());
  }
}

void NodeServer::send(PeerId peer, const Message& message) {
  const auto found = connections_.find(peer);
  if (found == connections_.end()) {
    return;
  }
  if (const auto* refused = std::get_if<Refused>(&message)) {
    found->second.refusal = refused->reason;
    found->second.comes_again = refused->ending;
  }
  found->second.channel.send(message);
  watch(peer);
}

void NodeServer::on_time() {
  if (!listening_) {
    listen();
  }
  std::vector<std::pair<PeerId, std::string>> dead;
  for (auto& [peer, connection] : connections_) {
    try {
      check(peer, connection);
      watch(peer);
    } catch (const PeerError& error) {
      dead.emplace_back(peer, error.what());
    }
  }
  for (const auto& [peer, why] : dead) {
    drop(peer, why);
  }
}

void NodeServer::check(PeerId peer, const Connection& connection) const {
  const Channel& channel = connection.channel;
  channel.check(node_timeout_);
  if (!hooks_.is_member(peer) && channel.age() > kStrangerLimit && !channel.unread()) {
    throw PeerError("it did not introduce itself within " + to_text(kStrangerLimit));
  }
}

void NodeServer::drop(PeerId peer, const std::string& why) {
  const auto found = connections_.find(peer);
  if (found == connections_.end()) {
    return;
  }
  const Connection gone = std::move(found->second);
  loop_.forget(gone.channel.fd());
  connections_.erase(found);
  if (hooks_.is_member(peer)) {
    hooks_.on_lost(peer, why);
  } else if (!gone.comes_again) {
    // A refusal repeats what the stranger said of itself, which may be anything.
    tell_once("turned away " + gone.host + ": " +
              last_lines(gone.refusal.empty() ? why : gone.refusal, 1));
  }
}

void NodeServer::tell_once(const std::string& line) {
  if (told_.size() < kMostTold && told_.insert(line).second) {
    hooks_.note(line);
  }
}

void NodeServer::close(Deadline deadline) {
  for (auto& [peer, connection] : connections_) {
    loop_.forget(connection.channel.fd());
    connection.channel.close(deadline);
  }
  connections_.clear();
}

}  // namespace lockstep::launch
