#include "lockstep/launch/network/leader.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "lockstep/base/process/tree.h"
#include "lockstep/launch/time_limits.h"

namespace lockstep::launch {
namespace {

JobSettings settings_of(const Context& context) {
  const RunOptions& options = context.options;
  JobSettings settings;
  settings.leader = introduce(context);
  settings.master_addr = options.nodes.endpoint.host;
  settings.max_restarts = options.max_restarts;
  settings.final_codes = options.final_codes;
  // Workers that start with SIGUSR1 blocked obey it, however late. To others it may mean anything.
  settings.notice_lasts = context.signals->workers_hold_back(SIGUSR1)
                              ? std::chrono::milliseconds::max()
                              : options.shutdown_timeout;
  settings.join_timeout = options.nodes.join_timeout;
  settings.stop_timeout = options.shutdown_timeout + kStopSlack;
  return settings;
}

std::string describe_status(int status) {
  return WIFSIGNALED(status) ? signal_name(WTERMSIG(status))
                             : "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

Join introduce(const Context& context) {
  const RunOptions& options = context.options;
  Join join;
  join.run_id = options.run_id;
  join.nodes = options.nodes.count;
  join.node_rank = options.nodes.rank.value_or(-1);
  join.node = {options.nodes.name, options.workers, options.role};
  join.pid = static_cast<int>(::getpid());
  return join;
}

Leader::Leader(const Context& context, EventLoop& loop, Consoles& consoles,
               std::optional<Listener> meeting_point)
    : context_(context),
      consoles_(consoles),
      store_(context, loop),
      coordinator_(settings_of(context), [this] { return open_store(); }) {
  if (meeting_point) {
    NodeServerHooks hooks;
    hooks.on_message = [this](PeerId peer, const Message& m) { coordinator_.on_message(peer, m); };
    hooks.on_lost = [this](PeerId peer, const std::string& why) {
      coordinator_.on_lost(peer, why);
    };
    hooks.is_member = [this](PeerId peer) { return coordinator_.is_member(peer); };
    hooks.note = [this](const std::string& line) {
      const std::string missing = coordinator_.missing_nodes();
      consoles_.err.say("lockstep run: " + line +
                        (missing.empty() ? "" : "; still waiting for " + missing) + "\n");
    };
    node_server_ = std::make_unique<NodeServer>(loop, std::move(*meeting_point), std::move(hooks),
                                                context.options.nodes.node_timeout);
    late_ = Deadline::in(
        std::min<std::chrono::milliseconds>(kLateNodes, context.options.nodes.join_timeout / 2));
  }
  coordinator_.begin();
}

int Leader::open_store() {
  Endpoint endpoint = context_.options.nodes.endpoint;
  if (node_server_) {
    endpoint.port = 0;  // The port that the user gave is the launchers' meeting point.
  }
  return store_.open(endpoint);
}

void Leader::report(const Message& message) { coordinator_.on_message(kLocalPeer, message); }

std::vector<Message> Leader::take_commands() {
  std::vector<Message> mine;
  for (auto& [peer, message] : coordinator_.take_outgoing()) {
    if (peer == kLocalPeer) {
      mine.push_back(std::move(message));
    } else {
      node_server_->send(peer, message);
    }
  }
  return mine;
}

void Leader::on_time() {
  coordinator_.on_time();
  if (node_server_) {
    node_server_->on_time();
    name_late_nodes();
  }
}

void Leader::name_late_nodes() {
  if (!late_ || !late_->passed()) {
    return;
  }
  const NodeOptions& nodes = context_.options.nodes;
  if (const std::string missing = coordinator_.missing_nodes(); !missing.empty()) {
    // As in the shell of "srun --nodes=2 --pty bash": it looks like a task, but the others have
    // ended.
    const std::string hint = nodes.found_by.empty()
                                 ? ""
                                 : "\nHINT: " + nodes.found_by +
                                       " told of these nodes, and each must run lockstep run; "
                                       "--standalone is for a job on this node alone";
    consoles_.err.say("lockstep run: still waiting for " + missing + " after " +
                      to_text(late_->total()) + ", up to " + to_text(nodes.join_timeout) +
                      " (--join-timeout)" + hint + "\n");
  }
  late_.reset();
}

void Leader::on_exits(const std::vector<ChildExit>& exits) {
  for (const auto& exit : exits) {
    if (exit.pid == store_.pid()) {
      store_.forget();
      const std::string how =
          "pid " + std::to_string(exit.pid) + ", " + describe_status(exit.status);
      const bool stops_workers = coordinator_.on_store_died(how);
      if (stops_workers) {  // Else a worker that tells of a SIGTERM puzzles users.
        consoles_.err.say("lockstep run: the store process of the job died (" + how +
                          "): all workers are stopped by SIGTERM\n");
      }
    }
  }
}

bool Leader::sweep() {
  if (!node_server_) {
    store_.stop();  // Other nodes may still need theirs.
  }
  return kill_descendants(Deadline::in(kLeaderSweeps), store_.pid());
}

void Leader::give_up(const std::string& why) {
  coordinator_.give_up(why);
  take_commands();  // What is for this node comes too late.
}

void Leader::close(Deadline deadline) {
  if (node_server_) {
    node_server_->close(deadline);
  }
  store_.stop();
}

}  // namespace lockstep::launch
