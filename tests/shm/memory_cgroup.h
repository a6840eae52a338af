// A cgroup of this test's own with a limit of memory, of the first or the second version.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace lockstep::shm::testing {

// Goes with the object, once the processes in it have ended.
class MemoryCgroup {
 public:
  explicit MemoryCgroup(std::size_t limit_bytes);
  ~MemoryCgroup();
  MemoryCgroup(const MemoryCgroup&) = delete;
  MemoryCgroup& operator=(const MemoryCgroup&) = delete;

  // Only root, or who was given a part of the tree, can make one.
  [[nodiscard]] bool works() const { return why_not_.empty(); }
  [[nodiscard]] const std::string& why_not() const { return why_not_; }

  // Puts the calling process into it; what it takes from now on is counted there.
  void enter() const;
  // Processes that the kernel killed in it for want of memory.
  [[nodiscard]] int kills() const;

 private:
  std::string make(const std::filesystem::path& parent, const char* limit_file, std::size_t bytes);

  std::filesystem::path folder_;
  std::string why_not_;
};

}  // namespace lockstep::shm::testing
