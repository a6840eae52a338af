#include "lockstep/comm/library_errors.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/exception.h>

#include <algorithm>
#include <initializer_list>

#include "lockstep/base/error.h"
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
  if (is_a<UsageError>(error) || is_a<c10::ValueError>(error) || is_a<c10::TypeError>(error) ||
      is_a<c10::NotImplementedError>(error)) {
    return Fault::kArguments;
  }
  if (const auto* peer = dynamic_cast<const PeerError*>(&error)) {
    return peer->cause() == PeerError::Cause::kLate ? Fault::kLate : Fault::kConnection;
  }
  if (is_a<ConnectionLost>(error)) {
    return Fault::kConnection;
  }
  if (is_a<c10d::TimeoutError>(error)) {
    return Fault::kLate;
  }
  const std::string words = words_of(error);
  if (has_any_of(words, {"ProcessGroupGloo::", "Cannot use ReduceOp", "Invalid scalar type",
                         "does not support"})) {
    return Fault::kArguments;
  }
  if (has_any_of(words, {"Timed out waiting", "peration timed out", "imeout"})) {
    return Fault::kLate;
  }
  if (has_any_of(words, {"imed out"})) {  // ETIMEDOUT, as the C library says it.
    return Fault::kSilent;
  }
  return is_a<gloo::IoException>(error) || is_a<c10::DistError>(error) ? Fault::kConnection
                                                                       : Fault::kHere;
}

std::string words_of(const std::exception& error) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
  return first_line(c10_error != nullptr ? c10_error->what_without_backtrace() : error.what());
}

}  // namespace lockstep::comm
