// A send, a receive or a question, and what can become of it.
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

// A rank has left the group in order, or it ended or cannot be reached.
class RankGone : public PeerError {
 public:
  enum class How {
    kLeft,    // It said so.
    kClosed,  // Nobody listens where it did: it ended or left before there was a connection.
    kDied,    // Its connection broke, or there is no way to it.
  };
  RankGone(int rank, How how, const std::string& words)
      : PeerError(words), rank_(rank), how_(how) {}
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] How how() const { return how_; }

 private:
  int rank_;
  How how_;
};

// What a message failed with.
struct Failure {
  enum class Kind { kNone, kLeft, kRefused, kDied, kClosed, kLate, kSize };
  Kind kind = Kind::kNone;
  std::string words = {};
  int rank = -1;  // kLeft, kRefused, kDied: which.

  // Each caller gets an exception of its own; null for kNone.
  [[nodiscard]] std::exception_ptr as_exception() const;
};

// A send, a receive or a question that was posted.
class Message {
 public:
  // Never blocks; also true for one that failed.
  [[nodiscard]] bool is_done() const { return done_.load(std::memory_order_acquire); }
  // RankGone: the other rank left or ended. PeerError: this rank has closed the mailbox, or the
  // time was over. UsageError: the message was of another size and is lost. Null if it was
  // delivered and before it is done.
  [[nodiscard]] std::exception_ptr error() const {
    return is_done() ? failure_.as_exception() : nullptr;
  }
  [[nodiscard]] bool is_send() const { return is_send_; }
  // To whom it goes, or from whom it shall come.
  [[nodiscard]] int peer() const { return peer_; }
  // Who sent it; -1 before it is done.
  [[nodiscard]] int from() const { return is_done() ? from_ : -1; }
  // A question's, once it is done without an error.
  [[nodiscard]] std::uint64_t answer() const { return answer_; }
  // "rank 3 has not taken ... within 30 s", for errors.
  [[nodiscard]] std::string late_after(const std::string& time) const;

 private:
  friend class Exchange;
  friend class Mailbox;
  friend class NetworkThread;
  bool is_send_ = false;
  bool is_question_ = false;
  int peer_ = kAnySource;
  std::uint64_t tag_ = 0;
  std::uint64_t id_ = 0;  // A send's or question's, as in its frames.
  std::span<std::byte> data_;
  std::shared_ptr<const void> owner_;
  std::vector<std::function<void()>> tells_;
  Failure failure_;
  int from_ = -1;
  std::uint64_t answer_ = 0;
  std::atomic<bool> done_{false};
};

using MessagePointer = std::shared_ptr<Message>;

}  // namespace lockstep::net
