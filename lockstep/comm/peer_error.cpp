#include "lockstep/comm/peer_error.h"

#include "lockstep/base/text.h"

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

}  // namespace

bool is_argument_error(const std::string& text) {
  return contains(text, "ProcessGroupGloo::") || contains(text, "Cannot use ReduceOp") ||
         contains(text, "Invalid scalar type") || contains(text, "does not support");
}

std::string words_of(const std::exception& error) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
  return first_line(c10_error != nullptr ? c10_error->what_without_backtrace() : error.what());
}

void rethrow_as_peer_error(const std::string& what) {
  std::string text;
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    text = words_of(error);
  }
  if (is_argument_error(text)) {
    throw UsageError(what + ": " + text);
  }
  const bool late = contains(text, "imed out") || contains(text, "imeout");
  throw PeerError(
      what + ": " + text +
      (late ? "; a rank is late or left: see the logs of the others, or raise the timeout"
            : "; a rank ended or its connection broke: see the logs of the others"));
}

}  // namespace lockstep::comm
