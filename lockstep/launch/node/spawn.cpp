#include "lockstep/launch/node/spawn.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "lockstep/base/fd.h"

namespace lockstep::launch {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (auto& text : texts) {
    result.push_back(text.data());
  }
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> flatten(const Environment& environment) {
  std::vector<std::string> entries;
  entries.reserve(environment.variables().size());
  for (const auto& [name, value] : environment.variables()) {
    entries.emplace_back(name).append("=").append(value);
  }
  return entries;
}

// Everything the child needs, made before the fork: after it nothing is allocated.
struct Prepared {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::vector<char*> argv;
  std::vector<char*> envp;
  std::string failure;
};

void connect_stream(int fd, int number) {
  if (fd >= 0) {
    ::dup2(fd, number);  // The copy does not close on exec.
  }
}

[[noreturn]] void run_child(const ChildSpec& spec, Prepared& prepared, const Signals& signals) {
  ::setsid();
  connect_stream(spec.stdout_fd, STDOUT_FILENO);
  connect_stream(spec.stderr_fd, STDERR_FILENO);
  if (spec.kept_fd >= 0) {
    ::fcntl(spec.kept_fd, F_SETFD, 0);
  }
  signals.restore_in_child();
  if (spec.ended_by_us) {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
      std::signal(signal, SIG_IGN);
    }
  }
  ::execve(spec.path.c_str(), prepared.argv.data(), prepared.envp.data());
  const char* reason = ::strerror(errno);
  write_all(STDERR_FILENO, prepared.failure);
  write_all(STDERR_FILENO, reason);
  write_all(STDERR_FILENO, "\n");
  ::_exit(126);
}

// Signals that come meanwhile wait.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

constexpr auto kPidfd = static_cast<idtype_t>(3);  // P_PIDFD, which older C libraries do not name.

// As waitid(2) for this child alone; fails with ECHILD once it was reaped.
int wait_for_child(const Child& child, siginfo_t& ended, int options) {
  const bool exact = static_cast<bool>(child.handle);
  return ::waitid(exact ? kPidfd : P_PID, static_cast<id_t>(exact ? child.handle.get() : child.pid),
                  &ended, WEXITED | options);
}

}  // namespace

Child start_child(const ChildSpec& spec, const Signals& signals) {
  Prepared prepared;
  prepared.arguments = spec.arguments;
  prepared.environment = flatten(spec.environment);
  prepared.argv = pointers(prepared.arguments);
  prepared.envp = pointers(prepared.environment);
  prepared.failure = "lockstep run: cannot execute '" + spec.path + "': ";
  const NoSignals until_it_has_its_own_dispositions;
  return fork_child("starting '" + spec.path + "'", SIGKILL,
                    [&] { run_child(spec, prepared, signals); });
}

void signal_child(const Child& child, int signal, Reach reach) {
  siginfo_t ended{};
  if (child.pid == 0 || wait_for_child(child, ended, WNOHANG | WNOWAIT) != 0) {
    return;  // 0 would be our own process group.
  }
  // A child that has just been forked may not lead its group yet.
  if (reach == Reach::kProcess || ::kill(-child.pid, signal) != 0) {
    ::kill(child.pid, signal);
  }
}

void end_child(Child child) {
  signal_child(child, SIGKILL);
  siginfo_t ended{};
  while (wait_for_child(child, ended, 0) != 0 && errno == EINTR) {
  }
}

}  // namespace lockstep::launch
