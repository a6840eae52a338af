#include "lockstep/comm/peer_error.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <initializer_list>

#include "lockstep/base/text.h"
#include "lockstep/comm/backends/gloo/headers/gloo/declarations.h"

namespace lockstep::comm {
namespace {

// The first line of c10d's text, without the source position before it and the advice after it.
std::string first_line(std::string text) {
  text = text.substr(0, text.find('\n'));
  text = text.substr(0, text.find(". This is typically caused by"));
  if (text.starts_with('[')) {
    const auto end = text.find("] ");
    if (end != std::string::npos) {
      text = text.substr(end + 2);
    }
  }
  const auto end = text.find_last_not_of(". ");
  return end == std::string::npos ? text : text.substr(0, end + 1);
}

bool has_any_of(const std::string& words, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return contains(words, part); });
}

template <class Type>
bool is_a(const std::exception& error) {
  return dynamic_cast<const Type*>(&error) != nullptr;
}

}  // namespace

Fault fault_of(const std::exception& error) {
  if (is_a<UsageError>(error)) {
    return Fault::kArguments;
  }
  if (const auto* peer = dynamic_cast<const PeerError*>(&error)) {
    return peer->cause() == PeerError::Cause::kLate ? Fault::kLate : Fault::kConnection;
  }
  const std::string words = words_of(error);
  if (has_any_of(words, {"ProcessGroupGloo::", "Cannot use ReduceOp", "Invalid scalar type",
                         "does not support"})) {
    return Fault::kArguments;
  }
  if (has_any_of(words, {"Timed out waiting", "peration timed out", "imeout"})) {
    return Fault::kLate;
  }
  if (has_any_of(words, {"imed out"})) {
    return Fault::kSilent;
  }
  return is_a<gloo::IoException>(error) || is_a<c10::DistError>(error) ||
                 is_a<ConnectionLost>(error)
             ? Fault::kConnection
             : Fault::kHere;
}

std::string words_of(const std::exception& error) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
  return first_line(c10_error != nullptr ? c10_error->what_without_backtrace() : error.what());
}

void rethrow_as_peer_error(const std::string& what) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = what + ": " + words_of(error);
    switch (fault_of(error)) {
      case Fault::kArguments:
        throw UsageError(text);
      case Fault::kLate:
      case Fault::kSilent:
        throw PeerError(
            text + "; a rank is late or left: see the logs of the others, or raise the timeout",
            PeerError::Cause::kLate);
      default:
        throw PeerError(text +
                        "; a rank ended or its connection broke: see the logs of the others");
    }
  }
}

}  // namespace lockstep::comm
