#include "lockstep/net/mailbox.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <random>

#include "lockstep/net/exchange.h"

namespace lockstep::net {
namespace {

constexpr std::chrono::seconds kGoodbye{1};
// How late it may be noticed that a time is over.
constexpr int kLookMs = 20;
// How long whoever connects waits at least where this process can have no more descriptors.
constexpr std::chrono::milliseconds kAcceptAgain{100};

}  // namespace

struct Mailbox::Order {
  enum class What { kSend, kReceive, kTell, kClose, kStop };
  What what;
  MessagePointer message = nullptr;
  Deadline deadline = Deadline::in(std::chrono::seconds(0));
  std::function<void()> tell = nullptr;
  std::string reason = {};
  Close how = Close::kAtOnce;
};

struct Mailbox::State {
  State(int rank, const std::string& address)
      : own_rank(rank),
        listener(listen_on({address, 0})),
        wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        card{.endpoint = {address, listener.port}, .token = std::random_device()()} {
    if (!wake) {
      throw_errno("eventfd for the messages of rank " + std::to_string(rank));
    }
    set_nonblocking(listener.fd.get());
  }

  // What there is to do now; waits for something to do, at most until then.
  void step(Deadline limit);
  void obey(Order& order);
  void look(Deadline limit);
  void accept_all();
  [[nodiscard]] int patience(Deadline limit);
  void check_times();
  void finish(const MessagePointer& message, const Failure& failure);
  void close(const std::string& why, Close how);
  // Nothing happens after it.
  void end();
  void tell_all();

  const int own_rank;
  Listener listener;
  const UniqueFd wake;
  const Card card;

  std::mutex mutex;
  std::condition_variable one_done;
  std::vector<Order> orders;
  std::size_t connections = 0;
  bool is_closed = false;  // `closed` says why, and stays.

  // The thread's alone.
  std::optional<Exchange> exchange;
  Deadline accept_after = Deadline::in(std::chrono::milliseconds(0));
  std::vector<Order> timed;
  std::deque<std::function<void()>> tells;
  std::optional<Failure> closed;  // Why.
  bool is_over = false;
};

void Mailbox::State::finish(const MessagePointer& message, const Failure& failure) {
  if (message->is_done()) {
    return;
  }
  {
    const std::lock_guard lock(mutex);
    message->failure_ = failure;
    message->done_.store(true, std::memory_order_release);
  }
  one_done.notify_all();
  std::move(message->tells_.begin(), message->tells_.end(), std::back_inserter(tells));
  message->tells_.clear();
}

void Mailbox::State::obey(Order& order) {
  using What = Order::What;
  switch (order.what) {
    case What::kSend:
    case What::kReceive:
      if (closed) {
        finish(order.message, *closed);
      } else {
        order.what == What::kSend ? exchange->send(order.message)
                                  : exchange->receive(order.message);
      }
      break;
    case What::kTell:
      if (order.message->is_done()) {
        tells.push_back(std::move(order.tell));
      } else {
        order.message->tells_.push_back(std::move(order.tell));
        timed.push_back(std::move(order));
      }
      break;
    case What::kClose:
      close(order.reason, order.how);
      break;
    case What::kStop:
      end();
      break;
  }
}

// Sends, receives and accepts what can be at once; waits for it if there is nothing.
void Mailbox::State::look(Deadline limit) {
  exchange->drop_closed();
  const bool accepts = listener.fd && accept_after.passed();
  auto& links = exchange->links();
  std::vector<pollfd> ready{{wake.get(), POLLIN, 0}};
  ready.push_back({accepts ? listener.fd.get() : -1, POLLIN, 0});
  for (const auto& link : links) {
    const bool reads = !link.is_connecting() && exchange->wants_to_read(link);
    const int events = (reads ? POLLIN : 0) | (link.wants_to_write() ? POLLOUT : 0);
    ready.push_back({link.fd(), static_cast<short>(events), 0});
  }
  ::poll(ready.data(), ready.size(), patience(limit));
  std::uint64_t count = 0;
  (void)!::read(wake.get(), &count, sizeof count);
  std::size_t i = 2;
  for (auto& link : links) {
    const int events = ready[i++].revents;
    if (events != 0 || link.is_connecting()) {
      link.write();
      // Of one that has ended, only what the kernel holds is left.
      if ((events & (POLLHUP | POLLERR)) != 0 || exchange->wants_to_read(link)) {
        link.read(exchange->receiver());
      }
    }
  }
  exchange->drop_closed();
  if (accepts) {
    accept_all();
  }
  const std::lock_guard lock(mutex);
  connections = links.size();
}

// Whoever cannot be accepted stays there, and the socket ready: without a pause we would do nothing
// else.
void Mailbox::State::accept_all() {
  auto accepted = accept_on(listener);
  while (accepted.fd) {
    exchange->adopt(std::move(accepted.fd));
    accepted = accept_on(listener);
  }
  if (errno != EAGAIN) {
    accept_after = Deadline::in(kAcceptAgain);
  }
}

// For poll(): until something has to be looked at even if nothing happens.
int Mailbox::State::patience(Deadline limit) {
  const auto& links = exchange->links();
  const bool is_connecting = std::any_of(links.begin(), links.end(),
                                         [](const Link& link) { return link.is_connecting(); });
  int patience = limit.poll_timeout();
  if (is_connecting) {
    patience = std::min(patience, kLookMs);
  }
  if (listener.fd && !accept_after.passed()) {
    patience = std::min(patience, accept_after.poll_timeout());
  }
  for (const auto& order : timed) {
    patience = std::min(patience, order.deadline.poll_timeout());
  }
  return patience;
}

void Mailbox::State::check_times() {
  std::erase_if(timed, [](const Order& order) { return order.message->is_done(); });
  for (const auto& order : timed) {
    if (order.deadline.passed()) {
      exchange->give_up(
          order.message,
          {.kind = Failure::Kind::kClosed,
           .words = "nothing came within " + to_text(order.deadline.total()) +
                    "; see the log of the rank that should have sent it, or raise the "
                    "timeout"});
    }
  }
}

void Mailbox::State::close(const std::string& why, Close how) {
  if (closed) {
    return;
  }
  closed = {.kind = Failure::Kind::kClosed, .words = why};
  {
    const std::lock_guard lock(mutex);
    is_closed = true;
  }
  if (how == Close::kPolitely) {
    exchange->leave(*closed);
    const auto deadline = Deadline::in(kGoodbye);
    // Until all have ended their sides: a connection that is closed while something is unread is
    // reset, and what was sent is lost.
    while (!exchange->links().empty() && !deadline.passed()) {
      look(deadline);
      exchange->end_sending();
    }
  }
  listener.fd.reset();  // Whoever has knocked and was not let in is sent away.
  exchange->give_up_all(*closed);
  const std::lock_guard lock(mutex);
  connections = 0;
}

void Mailbox::State::end() {
  close("rank " + std::to_string(own_rank) + " has left the group; form a new one",
        Close::kPolitely);
  std::vector<Order> given;
  {
    const std::lock_guard lock(mutex);
    given.swap(orders);
  }
  is_over = true;
  for (auto& order : given) {
    if (order.what != Order::What::kStop) {
      obey(order);
    }
  }
  tell_all();
}

// What it calls may end this: then nothing is left to tell.
void Mailbox::State::tell_all() {
  while (!tells.empty()) {
    const auto tell = std::move(tells.front());
    tells.pop_front();
    tell();
  }
}

void Mailbox::State::step(Deadline limit) {
  std::vector<Order> given;
  {
    const std::lock_guard lock(mutex);
    given.swap(orders);
  }
  for (auto& order : given) {
    obey(order);
  }
  check_times();
  tell_all();
  bool has_orders = false;  // Given while this one said goodbye, which swallows the wake-up.
  {
    const std::lock_guard lock(mutex);
    has_orders = !orders.empty();
  }
  if (!is_over) {
    look(has_orders ? Deadline::in(std::chrono::milliseconds(0)) : limit);
  }
}

Mailbox::Mailbox(int rank, const std::string& address)
    : state_(std::make_shared<State>(rank, address)), card_(state_->card.to_text()) {}

void Mailbox::open(const std::vector<std::string>& cards) {
  std::vector<Card> parsed;
  for (const auto& card : cards) {
    parsed.push_back(Card::from_text(card));
  }
  state_->exchange.emplace(
      state_->own_rank, std::move(parsed),
      [state = state_.get()](const MessagePointer& message, const Failure& failure) {
        state->finish(message, failure);
      });
  thread_ = std::thread([state = state_] {
    while (!state->is_over) {
      state->step(Deadline::in(std::chrono::hours(1)));
    }
  });
}

Mailbox::~Mailbox() {
  if (!thread_.joinable()) {
    return;
  }
  if (std::this_thread::get_id() == thread_.get_id()) {
    state_->end();
    thread_.detach();  // It ends when the call returns in which we are: nobody can join itself.
    return;
  }
  give({.what = Order::What::kStop});
  thread_.join();
}

void Mailbox::give(Order order) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->orders.push_back(std::move(order));
  }
  const std::uint64_t one = 1;
  (void)!::write(state_->wake.get(), &one, sizeof one);
}

MessagePointer Mailbox::post(bool is_send, int peer, std::uint64_t tag, std::span<std::byte> data,
                             std::shared_ptr<const void> owner) {
  auto message = std::make_shared<Message>();
  message->peer_ = peer;
  message->tag_ = tag;
  message->data_ = data;
  message->owner_ = std::move(owner);
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->is_closed) {  // Then the thread need not come: it may be ending this mailbox.
      message->failure_ = *state_->closed;
      message->done_.store(true, std::memory_order_release);
      return message;
    }
  }
  give({.what = is_send ? Order::What::kSend : Order::What::kReceive, .message = message});
  return message;
}

MessagePointer Mailbox::send(int to, std::uint64_t tag, std::span<const std::byte> data,
                             std::shared_ptr<const void> owner) {
  return post(/*is_send=*/true, to, tag, {const_cast<std::byte*>(data.data()), data.size()},
              std::move(owner));
}

MessagePointer Mailbox::receive(int from, std::uint64_t tag, std::span<std::byte> data,
                                std::shared_ptr<const void> owner) {
  return post(/*is_send=*/false, from, tag, data, std::move(owner));
}

bool Mailbox::wait_until(const Message& message, Deadline deadline) {
  if (std::this_thread::get_id() == thread_.get_id()) {  // In what when_done() calls.
    while (!message.is_done() && !deadline.passed()) {
      state_->step(deadline);
    }
    return message.is_done();
  }
  std::unique_lock lock(state_->mutex);
  return state_->one_done.wait_until(lock, deadline.at(), [&] { return message.is_done(); });
}

void Mailbox::when_done(MessagePointer message, Deadline deadline, std::function<void()> tell) {
  give({.what = Order::What::kTell,
        .message = std::move(message),
        .deadline = deadline,
        .tell = std::move(tell)});
}

void Mailbox::close(const std::string& reason, Close how) {
  if (std::this_thread::get_id() == thread_.get_id()) {
    state_->close(reason, how);
    return;
  }
  give({.what = Order::What::kClose, .reason = reason, .how = how});
}

std::size_t Mailbox::connections() const {
  const std::lock_guard lock(state_->mutex);
  return state_->connections;
}

}  // namespace lockstep::net
