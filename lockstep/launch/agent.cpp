#include "lockstep/launch/agent.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <memory>
#include <optional>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/process/tree.h"
#include "lockstep/launch/job/error_file.h"
#include "lockstep/launch/network/leader.h"
#include "lockstep/launch/network/member.h"
#include "lockstep/launch/node/local_node.h"
#include "lockstep/launch/time_limits.h"

namespace lockstep::launch {
namespace {

// The socket at which this node leads a job of several; nothing if another node does.
std::optional<Listener> try_to_lead(const NodeOptions& nodes) {
  if (!nodes.first_to_listen_leads) {
    return nodes.rank == 0 ? std::optional(listen_on(nodes.endpoint)) : std::nullopt;
  }
  if (!is_this_machine(nodes.endpoint.host)) {
    return std::nullopt;
  }
  try {
    return listen_on(nodes.endpoint);
  } catch (const UsageError&) {
    return std::nullopt;  // Another launcher on this machine was first.
  }
}

class Agent {
 public:
  Agent(const Context& context, UniqueFd supervisor)
      : context_(context), supervisor_(std::move(supervisor)) {}

  int run() {
    try {
      open();
      while (!exit_code_) {
        step();
      }
    } catch (const UsageError& error) {
      fail(2, error.what());
    } catch (const std::exception& error) {
      fail(1, error.what());
    }
    tell_supervisor(*exit_code_);
    if (coordinator_) {
      coordinator_->close(Deadline::in(kFarewellPatience));
    }
    const Deadline deadline = Deadline::in(kConsoleLimit);
    consoles_.out.drain(deadline, kConsolePatience);
    consoles_.err.drain(deadline, kConsolePatience);
    return *exit_code_;
  }

 private:
  void open() {
    loop_.watch(context_.signals->fd(), POLLIN, [this] { on_signals(); });
    loop_.watch(supervisor_.get(), POLLIN, [this] { on_supervisor(); });
    NodeHooks hooks;
    hooks.prepare = [this] { context_.folder.make(); };
    hooks.report = [this](const Message& message) { coordinator_->report(message); };
    hooks.sweep = [this] { return coordinator_->sweep(); };
    node_ = std::make_unique<LocalNode>(context_, loop_, consoles_, std::move(hooks));
    const bool several = context_.options.nodes.count > 1;
    auto listener = several ? try_to_lead(context_.options.nodes) : std::nullopt;
    if (several && !listener) {
      coordinator_ = std::make_unique<Member>(
          context_, loop_, [this](const std::string& line) { consoles_.err.say(line); });
    } else {
      coordinator_ = std::make_unique<Leader>(context_, loop_, consoles_, std::move(listener));
    }
  }

  void step() {
    for (const auto& command : coordinator_->take_commands()) {
      obey(command);
    }
    if (exit_code_) {
      return;
    }
    node_->update_watches();
    watch_console(consoles_.out);
    watch_console(consoles_.err);
    const bool timed = node_->busy() || coordinator_->timed();
    loop_.run_once(Deadline::in(timed ? kTick : kQuietTick));
    node_->on_time();
    coordinator_->on_time();
  }

  void obey(const Message& command) {
    if (const auto* start = std::get_if<Start>(&command)) {
      node_->start(*start);
    } else if (const auto* stop = std::get_if<Stop>(&command)) {
      node_->stop(*stop);
    } else if (const auto* end = std::get_if<End>(&command)) {
      kill_descendants(Deadline::in(kKillPatience));
      tell_outer_launcher(*end);
      // The user who sent the signal here has been told already.
      if (!first_signal_ || end->exit_code != 128 + *first_signal_) {
        consoles_.err.say(end->text);
      }
      exit_code_ = end->exit_code;
    }
  }

  // A launcher may be a worker of another one, whose report then tells our root cause.
  void tell_outer_launcher(const End& end) {
    const auto path = context_.environment.get("TORCHELASTIC_ERROR_FILE");
    const bool failed = end.root_cause || end.exit_code == 1;  // Not ended by a signal to us.
    if (!path || !failed) {
      return;
    }
    const ErrorNote note = end.root_cause
                               ? note_of(*end.root_cause, context_.options.nodes.count > 1)
                               : ErrorNote{end.text, "", std::time(nullptr)};
    if (!write_error_note(*path, note, end.exit_code)) {
      consoles_.err.say("lockstep run: the error file '" + *path +
                        "' cannot be written: " + std::generic_category().message(errno) + "\n");
    }
  }

  void watch_console(Console& console) {
    if (console.pending()) {
      loop_.watch(console.fd(), POLLOUT, [&console] { console.flush(); });
    } else {
      loop_.forget(console.fd());
    }
  }

  void on_signals() {
    while (const auto signal = context_.signals->next()) {
      if (*signal == SIGCHLD) {
        reap();
      } else {
        on_signal(*signal, SignalPath::kOwn);
      }
    }
  }

  void on_supervisor() {
    unsigned char numbers[16];
    const ssize_t got = ::recv(supervisor_.get(), numbers, sizeof numbers, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      on_supervisor_gone();
    }
    for (ssize_t i = 0; i < got; ++i) {
      on_signal(numbers[i], SignalPath::kSupervisor);
    }
  }

  void on_signal(int signal, SignalPath path) {
    if (echoes_.is_echo(signal, path)) {
      return;
    }
    if (!context_.signals->ends_job(signal)) {
      node_->pass_on(signal);
      return;
    }
    // A closing terminal sends SIGHUP more than once, and systemd may send SIGHUP beside its
    // SIGTERM. So a SIGHUP never counts as the second signal.
    if (signal != SIGHUP && ++asked_to_end_ == 2) {
      tell_supervisor(128 + *first_signal_);
      kill_descendants(Deadline::in(kKillPatience));
      context_.folder.remove_if_temporary();
      ::_exit(128 + *first_signal_);
    }
    if (!first_signal_ || signal != SIGHUP) {
      first_signal_ = first_signal_.value_or(signal);
      node_->interrupt(signal);
    }
  }

  void tell_supervisor(int code) const {
    const char byte = static_cast<char>(code);
    ::send(supervisor_.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  void reap() {
    std::vector<ChildExit> exits;
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      exits.push_back({pid, status});
    }
    coordinator_->on_exits(exits);
    node_->on_exits(exits);
  }

  [[noreturn]] void on_supervisor_gone() {
    kill_descendants(Deadline::in(kKillPatience));
    context_.folder.remove_if_temporary();
    ::_exit(128 + SIGKILL);
  }

  void fail(int code, const std::string& what) {
    kill_descendants(Deadline::in(kKillPatience));
    consoles_.err.say("lockstep run: " + what + "\n");
    tell_outer_launcher({1, what, std::nullopt});
    if (coordinator_) {
      coordinator_->give_up(what);
    }
    exit_code_ = code;
  }

  const Context& context_;
  UniqueFd supervisor_;
  EventLoop loop_;
  Consoles consoles_;
  std::unique_ptr<LocalNode> node_;
  std::unique_ptr<CoordinatorLink> coordinator_;
  EchoFilter echoes_;
  std::optional<int> first_signal_;
  int asked_to_end_ = 0;
  std::optional<int> exit_code_;
};

}  // namespace

int run_agent(const Context& context, UniqueFd supervisor) {
  return Agent(context, std::move(supervisor)).run();
}

}  // namespace lockstep::launch
