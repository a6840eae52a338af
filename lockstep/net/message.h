// A send or a receive, and what can become of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::net {

inline constexpr int kAnySource = -1;

// The connection to a rank has ended, or there is none to be had.
class RankGone : public PeerError {
 public:
  RankGone(int rank, const std::string& words) : PeerError(words), rank_(rank) {}
  [[nodiscard]] int rank() const { return rank_; }

 private:
  int rank_;
};

// What a message failed with.
struct Failure {
  enum class Kind { kNone, kGone, kClosed, kSize };
  Kind kind = Kind::kNone;
  std::string words = {};
  int rank = -1;  // kGone: which.

  // Of its own for each caller; null for kNone.
  [[nodiscard]] std::exception_ptr as_exception() const;
};

// A send or a receive that was posted.
class Message {
 public:
  // Never blocks; also true for one that failed.
  [[nodiscard]] bool is_done() const { return done_.load(std::memory_order_acquire); }
  // RankGone: it ended, or left the group. PeerError: this rank has closed the mailbox, or nothing
  // came in time. UsageError: the message was of another size and is lost. Null if it was delivered
  // and before it is done.
  [[nodiscard]] std::exception_ptr error() const {
    return is_done() ? failure_.as_exception() : nullptr;
  }
  // To whom it goes, or from whom it shall come.
  [[nodiscard]] int peer() const { return peer_; }
  // Who sent it; -1 before it is done.
  [[nodiscard]] int from() const { return is_done() ? from_ : -1; }

 private:
  friend class Exchange;
  friend class Mailbox;
  int peer_ = kAnySource;
  std::uint64_t tag_ = 0;
  std::span<std::byte> data_;
  std::shared_ptr<const void> owner_;
  std::vector<std::function<void()>> tells_;
  Failure failure_;
  int from_ = -1;
  std::atomic<bool> done_{false};
};

using MessagePointer = std::shared_ptr<Message>;

}  // namespace lockstep::net
