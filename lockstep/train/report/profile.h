// Records some steps for chrome://tracing and Perfetto, with LibTorch's own profiler.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::train {

// Steps 3 to 12 of this process are recorded, in the thread that makes it: the first ones are not
// as the others are.
class Profile {
 public:
  // Does nothing if it is not enabled. Writes trace.json into the folder.
  Profile(bool enabled, std::string folder);
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // After each step.
  void on_step();
  // Writes what was recorded, if steps are being recorded.
  void finish();

  // What was written; empty before.
  [[nodiscard]] const std::string& file() const { return file_; }
  // What kept it from being written; empty: nothing.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }

 private:
  static constexpr std::int64_t kFirst = 2;
  static constexpr std::int64_t kLast = 12;

  bool enabled_;
  std::string folder_;
  std::int64_t steps_ = 0;
  bool is_recording_ = false;
  std::string file_;
  std::string why_not_;
};

}  // namespace lockstep::train
