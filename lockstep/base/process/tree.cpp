#include "lockstep/base/process/tree.h"

#include <strings.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "lockstep/base/fd.h"
#include "lockstep/base/process/state.h"
#include "lockstep/base/text/text.h"

namespace lockstep {
namespace {

// A process whose first thread has left looks like a zombie while its other threads run.
bool is_living(const ProcessStat& stat) {
  return stat.exists && stat.state != 'X' && (stat.state != 'Z' || stat.num_threads != 1);
}

std::multimap<pid_t, pid_t> living_children() {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end;
       it.increment(error)) {
    const auto pid = parse_int(it->path().filename().string());
    const auto stat = pid ? read_stat(static_cast<pid_t>(*pid)) : std::nullopt;
    if (stat && is_living(*stat)) {
      children.emplace(stat->ppid, static_cast<pid_t>(*pid));
    }
  }
  return children;
}

// Leaves the exit status of `spared`, and of what ends after it, to its own waiter.
// False if no child is left at all, living or dead: then there is no descendant either.
bool reap_all_but(pid_t spared) {
  for (;;) {
    siginfo_t ended{};
    if (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0) {
      return errno != ECHILD;
    }
    if (ended.si_pid == 0 || ended.si_pid == spared) {
      return true;
    }
    ::waitpid(ended.si_pid, nullptr, __WALL);
  }
}

// SIGKILL for one of `family`, the living descendants of this process. Its own parent may reap it
// meanwhile and its pid may go to a stranger: the descriptor means one process for good, and the
// look behind it tells whether that one is still of the family.
void kill_descendant(pid_t pid, const std::vector<pid_t>& family) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const auto stat = read_stat(pid);
  if (!stat || !stat->exists) {
    return;
  }
  if (stat->ppid == ::getpid()) {
    ::kill(pid, SIGKILL);  // Nobody but us can reap it.
  } else if (process && std::find(family.begin(), family.end(), stat->ppid) != family.end()) {
    ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
  }
}

}  // namespace

void become_subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

bool die_with_parent(int signal, pid_t expected_parent) {
  ::prctl(PR_SET_PDEATHSIG, signal);
  return ::getppid() == expected_parent;
}

std::vector<pid_t> descendants_of(pid_t root) {
  const auto children = living_children();
  std::vector<pid_t> found;
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    const auto [first, last] = children.equal_range(open.back());
    open.pop_back();
    for (auto it = first; it != last; ++it) {
      found.push_back(it->second);
      open.push_back(it->second);
    }
  }
  return found;
}

bool kill_descendants(Deadline deadline, pid_t spared) {
  // One look at /proc can miss a process that was forked during it; the next look finds it.
  for (int quiet_looks = 0; quiet_looks < 2 && reap_all_but(spared);) {
    const auto family = descendants_of(::getpid());
    const auto victims =
        family.size() - static_cast<std::size_t>(std::count(family.begin(), family.end(), spared));
    for (const pid_t pid : family) {
      if (pid != spared) {
        kill_descendant(pid, family);
      }
    }
    if (victims == 0) {
      ++quiet_looks;
      continue;
    }
    if (deadline.passed()) {
      return false;
    }
    quiet_looks = 0;
    ::usleep(1000);
  }
  return true;
}

std::string signal_name(int signal) {
  if (const char* name = ::sigabbrev_np(signal)) {
    return std::string("SIG") + name;
  }
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) {
    return "SIGRTMIN+" + std::to_string(signal - SIGRTMIN);
  }
  return "signal " + std::to_string(signal);
}

int signal_number(const std::string& name) {
  if (const auto number = parse_int(name)) {
    return *number > 0 && *number <= SIGRTMAX ? static_cast<int>(*number) : 0;
  }
  const char* abbreviation = name.c_str();
  if (::strncasecmp(abbreviation, "SIG", 3) == 0) {
    abbreviation += 3;
  }
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    const char* known = ::sigabbrev_np(signal);
    if (known != nullptr && ::strcasecmp(known, abbreviation) == 0) {
      return signal;
    }
  }
  // Names of Python's signal module that are second ones here, or belong to no fixed number.
  const std::pair<const char*, int> others[] = {
      {"IO", SIGIO}, {"IOT", SIGIOT}, {"CLD", SIGCHLD}, {"RTMIN", SIGRTMIN}, {"RTMAX", SIGRTMAX}};
  for (const auto& [other, signal] : others) {
    if (::strcasecmp(other, abbreviation) == 0) {
      return signal;
    }
  }
  return 0;
}

}  // namespace lockstep
