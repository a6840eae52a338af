#include "lockstep/comm/library_errors.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/exception.h>

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
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

// What follows `marker` in the text; nothing if it has no such.
std::optional<std::string> behind(const std::string& text, const std::string& marker) {
  const auto at = text.find(marker);
  return at == std::string::npos ? std::nullopt : std::optional(text.substr(at + marker.size()));
}

// NCCL's first collective needs an id of rank 0's, which c10d waits for in the store.
constexpr const char* kNcclId = "retrieving ncclUniqueId from [0]";

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

bool is_of_a_peer(const std::exception& error) {
  return is_a<PeerError>(error) || is_a<ConnectionLost>(error) || is_a<gloo::IoException>(error) ||
         is_a<c10::DistError>(error);
}

std::string words_of(const std::exception& error) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      c10_error != nullptr ? c10_error->what_without_backtrace() : error.what();
  if (contains(text, kNcclId)) {
    return "rank 0 has begun no collective on GPUs, and NCCL needs an id of it (" +
           first_line(behind(text, "got error: ").value_or(text)) + ")";
  }
  // c10d's line says where it called NCCL, and NCCL's last one what went wrong.
  const auto last = contains(text, "NCCL error") ? behind(text, "\nLast error:\n") : std::nullopt;
  const auto cause = last ? first_line(*last) : "";
  return first_line(text) + (cause.empty() ? "" : ": " + cause);
}

}  // namespace lockstep::comm
