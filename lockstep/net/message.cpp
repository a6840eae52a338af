#include "lockstep/net/message.h"

namespace lockstep::net {

std::exception_ptr Failure::as_exception() const {
  switch (kind) {
    case Kind::kNone:
      return nullptr;
    case Kind::kLeft:
      return std::make_exception_ptr(RankGone(rank, RankGone::How::kLeft, words));
    case Kind::kRefused:
      return std::make_exception_ptr(RankGone(rank, RankGone::How::kClosed, words));
    case Kind::kDied:
      return std::make_exception_ptr(RankGone(rank, RankGone::How::kDied, words));
    case Kind::kClosed:
      return std::make_exception_ptr(PeerError(words));
    case Kind::kLate:
      return std::make_exception_ptr(PeerError(words, PeerError::Cause::kLate));
    case Kind::kSize:
      return std::make_exception_ptr(UsageError(words));
  }
  return nullptr;
}

std::string Message::late_after(const std::string& time) const {
  const std::string who = peer_ == kAnySource ? "no rank" : "rank " + std::to_string(peer_);
  const std::string what =
      is_send_ ? (" has not taken the message of " + std::to_string(data_.size()) + " bytes")
               : std::string(peer_ == kAnySource ? " has sent a message" : " has sent no message");
  return who + what + " with tag " + std::to_string(tag_) + " within " + time;
}

}  // namespace lockstep::net
