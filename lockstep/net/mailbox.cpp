#include "lockstep/net/mailbox.h"

#include "lockstep/base/error.h"

namespace lockstep::net {

Mailbox::Mailbox(int rank, const std::string& address)
    : rank_(rank),
      listener_(listen_on({address, 0})),
      own_address_(
          RankAddress{.endpoint = {address, listener_.port}, .token = random_token()}.to_text()),
      callbacks_(std::make_unique<CallbackThread>()) {}

void Mailbox::open(const std::vector<std::string>& addresses) {
  require_owner();
  std::vector<RankAddress> parsed;
  for (const auto& address : addresses) {
    parsed.push_back(RankAddress::from_text(address));
  }
  network_ =
      std::make_unique<NetworkThread>(rank_, std::move(parsed), std::move(listener_), *callbacks_);
}

Mailbox::~Mailbox() {
  if (fork_guard_.in_owner()) {
    stop();
    return;
  }
  // Their threads are not here: their stacks may be others' by now.
  (void)network_.release();    // NOLINT(bugprone-unused-return-value)
  (void)callbacks_.release();  // NOLINT(bugprone-unused-return-value)
}

void Mailbox::stop() {
  if (network_) {
    network_->stop();
  }
  callbacks_->stop();
}

void Mailbox::require_owner() const {
  if (!fork_guard_.in_owner()) {
    throw UsageError("messages of rank " + std::to_string(rank_) +
                     ": this process is a fork of the rank and no member of its groups; form one "
                     "after fork(), or leave it to the parent");
  }
}

MessagePointer Mailbox::post(std::shared_ptr<Message> message) {
  network_->post(message);
  return message;
}

MessagePointer Mailbox::send(int to, std::uint64_t tag, std::span<const std::byte> data,
                             std::shared_ptr<const void> owner) {
  require_owner();
  auto message = std::make_shared<Message>();
  message->is_send_ = true;
  message->peer_ = to;
  message->tag_ = tag;
  message->data_ = {const_cast<std::byte*>(data.data()), data.size()};
  message->owner_ = std::move(owner);
  return post(std::move(message));
}

MessagePointer Mailbox::receive(int from, std::uint64_t tag, std::span<std::byte> data,
                                std::shared_ptr<const void> owner) {
  require_owner();
  auto message = std::make_shared<Message>();
  message->peer_ = from;
  message->tag_ = tag;
  message->data_ = data;
  message->owner_ = std::move(owner);
  return post(std::move(message));
}

void Mailbox::give_up(const MessagePointer& message, const std::string& words) {
  require_owner();
  network_->give_up(message, words);
}

MessagePointer Mailbox::ask(int peer) {
  require_owner();
  auto message = std::make_shared<Message>();
  message->is_question_ = true;
  message->peer_ = peer;
  return post(std::move(message));
}

void Mailbox::set_progress(std::uint64_t progress) {
  require_owner();
  network_->set_progress(progress);
}

bool Mailbox::wait_until(const Message& message, Deadline deadline) {
  require_owner();
  return message.is_done() || network_->wait_until(message, deadline);
}

void Mailbox::when_done(MessagePointer message, Deadline deadline, std::function<void()> tell) {
  require_owner();
  network_->when_done(std::move(message), deadline, std::move(tell));
}

void Mailbox::close(const std::string& reason, Close how) {
  require_owner();
  if (network_) {  // Else it was never open.
    network_->close(reason, how);
  }
}

std::size_t Mailbox::connections() const { return network_ ? network_->connections() : 0; }

}  // namespace lockstep::net
