#include "lockstep/launch/hub.h"

#include <sys/socket.h>

#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

constexpr std::chrono::milliseconds kStrangerLimit{2000};
constexpr std::size_t kMostConnections = 1024;

bool is_power_of_ten(long number) {
  while (number > 1 && number % 10 == 0) {
    number /= 10;
  }
  return number == 1;
}

}  // namespace

Hub::Hub(EventLoop& loop, Listener listener, HubHooks hooks)
    : loop_(loop), listener_(std::move(listener)), hooks_(std::move(hooks)) {
  set_nonblocking(listener_.fd.get());
  loop_.watch(listener_.fd.get(), POLLIN, [this] { accept_one(); });
}

Hub::~Hub() {
  loop_.forget(listener_.fd.get());
  for (const auto& [peer, channel] : channels_) {
    loop_.forget(channel.fd());
  }
}

void Hub::accept_one() {
  UniqueFd socket(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket || channels_.size() >= kMostConnections) {
    return;
  }
  const PeerId peer = ++last_peer_;
  channels_.emplace(peer, Channel(std::move(socket)));
  watch(peer);
}

void Hub::watch(PeerId peer) {
  const Channel& channel = channels_.at(peer);
  const short events = static_cast<short>(POLLIN | (channel.pending() ? POLLOUT : 0));
  loop_.watch(channel.fd(), events, [this, peer] { serve(peer); });
}

void Hub::serve(PeerId peer) {
  try {
    Channel& channel = channels_.at(peer);
    channel.flush();
    for (const auto& message : channel.receive()) {
      hooks_.on_message(peer, message);
    }
    watch(peer);
  } catch (const PeerError& error) {
    drop(peer, error.what());
  }
}

void Hub::send(PeerId peer, const Message& message) {
  const auto found = channels_.find(peer);
  if (found != channels_.end()) {
    found->second.send(message);
    watch(peer);
  }
}

void Hub::on_time() {
  std::vector<std::pair<PeerId, std::string>> dead;
  for (auto& [peer, channel] : channels_) {
    try {
      channel.on_time();
      if (!hooks_.is_member(peer) && channel.age() > kStrangerLimit) {
        throw PeerError("it did not introduce itself within " + to_text(kStrangerLimit));
      }
      watch(peer);
    } catch (const PeerError& error) {
      dead.emplace_back(peer, error.what());
    }
  }
  for (const auto& [peer, why] : dead) {
    drop(peer, why);
  }
}

void Hub::drop(PeerId peer, const std::string& why) {
  const auto found = channels_.find(peer);
  if (found == channels_.end()) {
    return;
  }
  loop_.forget(found->second.fd());
  channels_.erase(found);
  if (hooks_.is_member(peer)) {
    hooks_.on_lost(peer, why);
  } else if (is_power_of_ten(++strangers_)) {
    hooks_.note("dropped a connection that is not part of this job (" + why + "); " +
                std::to_string(strangers_) + " so far");
  }
}

void Hub::close(Deadline deadline) {
  for (auto& [peer, channel] : channels_) {
    loop_.forget(channel.fd());
    channel.close(deadline);
  }
  channels_.clear();
}

}  // namespace lockstep::launch
