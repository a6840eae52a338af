#include "lockstep/base/process/state.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/base/fd.h"

namespace lockstep {

// "pid (name) state ppid ..."; the name may hold anything, so fields are counted from its end.
std::optional<ProcessStat> read_stat(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    return errno == ENOENT || errno == ESRCH ? std::optional(ProcessStat{.exists = false})
                                             : std::nullopt;
  }
  std::array<char, 2048> text{};
  const auto length = ::read(file.get(), text.data(), text.size() - 1);
  if (length <= 0) {  // It went between open and read.
    return ProcessStat{.exists = false};
  }
  const std::string_view all(text.data(), static_cast<std::size_t>(length));
  const auto name_end = all.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= all.size()) {
    return std::nullopt;
  }
  constexpr int kState = 3;
  constexpr int kParent = 4;
  constexpr int kThreads = 20;
  constexpr int kStartTime = 22;
  constexpr int kExitCode = 52;
  ProcessStat stat{.state = all[name_end + 2]};
  const char* at = all.data() + name_end + 2;
  for (int field = kState; *at != '\0' && field <= kExitCode; ++field) {
    if (field == kParent) {
      stat.ppid = static_cast<pid_t>(std::strtol(at, nullptr, 10));
    } else if (field == kThreads) {
      stat.num_threads = std::strtol(at, nullptr, 10);
    } else if (field == kStartTime) {
      stat.start_time = std::strtoull(at, nullptr, 10);
    } else if (field == kExitCode) {
      stat.exit_code = static_cast<int>(std::strtol(at, nullptr, 10));
    }
    while (*at != '\0' && *at != ' ') {
      ++at;
    }
    while (*at == ' ') {
      ++at;
    }
  }
  return stat;
}

ProcessId identify(pid_t pid) {
  const auto stat = read_stat(pid);
  return {pid, stat ? stat->start_time : 0};
}

ProcessState state_of(const ProcessId& process) {
  const auto stat = read_stat(process.pid);
  if (!stat) {
    return {Life::kRunning, 0};
  }
  if (!stat->exists || (process.start_time != 0 && stat->start_time != process.start_time)) {
    return {Life::kEnded, 0};
  }
  switch (stat->state) {
    case 'Z':
    case 'X':
      return {Life::kEnded, stat->exit_code & 0x7f};
    case 'T':
    case 't':
      return {Life::kStopped, 0};
    default:
      return {Life::kRunning, 0};
  }
}

}  // namespace lockstep
