#include "lockstep/net/network_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"

namespace lockstep::net {
namespace {

// A rank that leaves waits this long without progress, and this long in all.
constexpr std::chrono::seconds kProgress{1};
constexpr std::chrono::seconds kGoodbye{30};
// The thread never blocks: it ends all as soon as it runs.
constexpr std::chrono::seconds kEndWithin{5};

}  // namespace

NetworkThread::NetworkThread(int rank, std::vector<RankAddress> addresses, Listener listener,
                             CallbackThread& callbacks)
    : rank_(rank),
      callbacks_(callbacks),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      exchange_(rank, std::move(addresses), std::move(listener),
                [this](const MessagePointer& message, const Failure& failure) {
                  finish(message, failure);
                }) {
  if (!wake_) {
    throw_errno("eventfd for the messages of rank " + std::to_string(rank));
  }
  thread_ = std::thread([this] { run(); });
}

void NetworkThread::stop() {
  const std::lock_guard lock(stop_mutex_);
  if (thread_.joinable()) {
    enqueue({.what = Order::What::kStop});
    thread_.join();
  }
}

void NetworkThread::enqueue(Order order) {
  std::unique_lock lock(mutex_);
  if (is_over_) {
    lock.unlock();
    obey(order);  // All it reads stays as it is.
    return;
  }
  orders_.push_back(std::move(order));
  lock.unlock();
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void NetworkThread::post(MessagePointer message) {
  enqueue({.what = Order::What::kPost, .message = std::move(message)});
}

void NetworkThread::give_up(const MessagePointer& message, const std::string& words) {
  enqueue({.what = Order::What::kGiveUp, .message = message, .reason = words});
  (void)wait_until(*message, Deadline::in(kEndWithin));
}

void NetworkThread::when_done(MessagePointer message, Deadline deadline,
                              std::function<void()> tell) {
  callbacks_.start();  // Here: in the network's thread there is nobody to tell if it cannot be.
  enqueue({.what = Order::What::kTell,
           .message = std::move(message),
           .deadline = deadline,
           .tell = std::move(tell)});
}

void NetworkThread::close(const std::string& reason, Close how) {
  enqueue({.what = Order::What::kClose, .reason = reason, .how = how});
  if (how == Close::kAtOnce) {
    std::unique_lock lock(mutex_);
    one_done_.wait_until(lock, Deadline::in(kEndWithin).at(), [&] { return has_ended_; });
  }
}

bool NetworkThread::wait_until(const Message& message, Deadline deadline) {
  std::unique_lock lock(mutex_);
  return one_done_.wait_until(lock, deadline.at(), [&] { return message.is_done(); });
}

void NetworkThread::finish(const MessagePointer& message, const Failure& failure) {
  if (message->is_done()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    message->failure_ = failure;
    message->done_.store(true, std::memory_order_release);
  }
  one_done_.notify_all();
  for (auto& tell : std::exchange(message->tells_, {})) {
    callbacks_.call(std::move(tell));
  }
}

void NetworkThread::run() {
  while (true) {
    std::vector<Order> given;
    {
      const std::lock_guard lock(mutex_);
      given.swap(orders_);
      is_over_ = stop_ && has_ended_ && given.empty();
      if (is_over_) {
        return;
      }
    }
    for (auto& order : given) {
      obey(order);
    }
    check_times();
    if (leaving_) {
      go_on_leaving();
    }
    connections_ = exchange_.peers().connected();
    if (!(stop_ && has_ended_)) {
      exchange_.peers().turn(wake_.get(), next_look());
      std::uint64_t count = 0;
      (void)!::read(wake_.get(), &count, sizeof count);
    }
  }
}

void NetworkThread::obey(Order& order) {
  switch (order.what) {
    case Order::What::kPost:
      if (closed_) {
        finish(order.message, *closed_);
      } else if (order.message->is_question_) {
        exchange_.ask(order.message);
      } else if (order.message->is_send_) {
        exchange_.send(order.message);
      } else {
        exchange_.receive(order.message);
      }
      break;
    case Order::What::kGiveUp:
      exchange_.give_up(order.message, {.kind = Failure::Kind::kLate, .words = order.reason});
      break;
    case Order::What::kTell:
      if (order.message->is_done()) {
        callbacks_.call(std::move(order.tell));
      } else {
        order.message->tells_.push_back(std::move(order.tell));
        timed_.push_back(std::move(order));
      }
      break;
    case Order::What::kStop:
      stop_ = true;
      begin_to_leave("rank " + std::to_string(rank_) + " has left the group; form a new one");
      break;
    case Order::What::kClose:
      if (order.how == Close::kPolitely) {
        begin_to_leave(order.reason);
      } else {
        end({.kind = Failure::Kind::kClosed, .words = order.reason});
      }
      break;
  }
}

void NetworkThread::check_times() {
  std::erase_if(timed_, [](const Order& order) { return order.message->is_done(); });
  for (const auto& order : timed_) {
    if (order.deadline.passed()) {
      exchange_.give_up(order.message,
                        {.kind = Failure::Kind::kLate,
                         .words = order.message->late_after(to_text(order.deadline.total())) +
                                  "; see its log, or raise the timeout"});
    }
  }
}

Deadline NetworkThread::next_look() const {
  auto next = Deadline::in(std::chrono::hours(1));
  const auto not_after = [&](const Deadline& other) {
    if (other.at() < next.at()) {
      next = other;
    }
  };
  for (const auto& order : timed_) {
    not_after(order.deadline);
  }
  if (leaving_) {
    not_after(leaving_->progress_by);
    not_after(leaving_->until);
  }
  return next;
}

void NetworkThread::begin_to_leave(const std::string& why) {
  if (closed_) {
    return;
  }
  closed_ = {.kind = Failure::Kind::kClosed, .words = why};
  exchange_.leave(*closed_);
  leaving_ = {.until = Deadline::in(kGoodbye), .progress_by = Deadline::in(kProgress)};
}

// First what was sent goes out; what nobody takes for a second is given up. Then all are told, and
// the connections end when they have heard it.
void NetworkThread::go_on_leaving() {
  exchange_.say_goodbyes();
  if (exchange_.peers().is_alone()) {
    end(*closed_);
    return;
  }
  const auto bytes = exchange_.peers().bytes_sent();
  if (bytes != leaving_->bytes_sent) {
    leaving_->bytes_sent = bytes;
    leaving_->progress_by = Deadline::in(kProgress);
  }
  if (!leaving_->progress_by.passed() && !leaving_->until.passed()) {
    return;
  }
  if (leaving_->sends_are_over) {
    end(*closed_);
    return;
  }
  exchange_.give_up_sends(*closed_);
  exchange_.say_goodbyes();
  leaving_ = {.until = Deadline::in(kProgress),
              .progress_by = Deadline::in(kProgress),
              .bytes_sent = bytes,
              .sends_are_over = true};
}

void NetworkThread::end(const Failure& why) {
  if (has_ended_) {
    return;
  }
  if (!closed_) {
    closed_ = why;
  }
  exchange_.give_up_all(*closed_);
  leaving_.reset();
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  one_done_.notify_all();
}

}  // namespace lockstep::net
