#include "lockstep/launch/command/stream_choice.h"

#include <algorithm>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"

namespace lockstep::launch {
namespace {

std::optional<Streams> parse_streams(std::string_view text) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '3') {
    return std::nullopt;
  }
  return static_cast<Streams>(text[0] - '0');
}

}  // namespace

StreamChoice StreamChoice::parse(std::string_view text, std::string_view flag) {
  StreamChoice choice;
  if (const auto streams = parse_streams(text)) {
    choice.all_ = *streams;
    return choice;
  }
  for (const auto& entry : split(text, ',')) {
    const auto colon = entry.find(':');
    const auto rank = parse_int(std::string_view(entry).substr(0, colon));
    const auto streams = colon == std::string::npos
                             ? std::nullopt
                             : parse_streams(std::string_view(entry).substr(colon + 1));
    if (!rank || *rank < 0 || *rank > 1'000'000 || !streams) {
      throw UsageError(std::string(flag) + " is '" + std::string(text) +
                       "', expected 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or a list "
                       "LOCAL_RANK:NUMBER such as 0:3,1:2");
    }
    choice.by_rank_[static_cast<int>(*rank)] = *streams;
  }
  return choice;
}

Streams StreamChoice::of(int local_rank) const {
  const auto found = by_rank_.find(local_rank);
  return found == by_rank_.end() ? all_ : found->second;
}

bool StreamChoice::any() const {
  return all_ != Streams::kNone ||
         std::any_of(by_rank_.begin(), by_rank_.end(),
                     [](const auto& entry) { return entry.second != Streams::kNone; });
}

}  // namespace lockstep::launch
