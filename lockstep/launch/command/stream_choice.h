// Which streams of which workers: the value of --redirects and --tee.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace lockstep::launch {

enum class Streams { kNone = 0, kOut = 1, kErr = 2, kBoth = 3 };

constexpr bool has_out(Streams streams) { return (static_cast<int>(streams) & 1) != 0; }
constexpr bool has_err(Streams streams) { return (static_cast<int>(streams) & 2) != 0; }

class StreamChoice {
 public:
  StreamChoice() = default;

  // torchrun's syntax: "3" for all workers, "0:1,1:2" by local rank, the others none.
  // Throws UsageError naming `flag`.
  static StreamChoice parse(std::string_view text, std::string_view flag);

  [[nodiscard]] Streams of(int local_rank) const;
  // False if no worker at all is chosen.
  [[nodiscard]] bool any() const;
  // The highest local rank that a list names, -1 if there is no list.
  [[nodiscard]] int highest_rank() const {
    return by_rank_.empty() ? -1 : by_rank_.rbegin()->first;
  }

 private:
  Streams all_ = Streams::kNone;
  std::map<int, Streams> by_rank_;
};

}  // namespace lockstep::launch
