#include "lockstep/launch/network/heartbeats.h"

#include <sys/socket.h>

#include "lockstep/launch/protocol/frame.h"
#include "lockstep/launch/protocol/message.h"
#include "lockstep/launch/time_limits.h"

namespace lockstep::launch {

Outbox::Outbox(UniqueFd socket) : socket_(std::move(socket)), last_sent_(Deadline::Clock::now()) {
  set_nonblocking(socket_.get());
}

void Outbox::post(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  unsent_ += bytes;
  last_sent_ = Deadline::Clock::now();
  flush_locked();
}

void Outbox::flush() {
  const std::lock_guard lock(mutex_);
  flush_locked();
}

void Outbox::flush_locked() {
  while (!unsent_.empty()) {
    const ssize_t sent =
        ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent <= 0) {
      break;  // If the connection is gone, whoever reads notices.
    }
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
}

void Outbox::beat() {
  const std::lock_guard lock(mutex_);
  const auto now = Deadline::Clock::now();
  if (socket_ && unsent_.empty() && now - last_sent_ >= kHeartbeatInterval) {
    unsent_ = frame(encode(Heartbeat{}));
    last_sent_ = now;
  }
  flush_locked();
}

void Outbox::close() {
  const std::lock_guard lock(mutex_);
  socket_.reset();
}

std::size_t Outbox::unsent() const {
  const std::lock_guard lock(mutex_);
  return unsent_.size();
}

Heartbeats::Heartbeats() : thread_([this] { run(); }) {}

Heartbeats::~Heartbeats() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Heartbeats::add(const std::shared_ptr<Outbox>& outbox) {
  const std::lock_guard lock(mutex_);
  outboxes_.push_back(outbox);
}

void Heartbeats::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kHeartbeatInterval / 5, [this] { return stopping_; })) {
    std::erase_if(outboxes_, [](const auto& outbox) { return outbox.expired(); });
    for (const auto& entry : outboxes_) {
      if (const auto outbox = entry.lock()) {
        outbox->beat();
      }
    }
  }
}

}  // namespace lockstep::launch
