#include "lockstep/launch/node/worker_group.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/socket.h"
#include "lockstep/base/text/text.h"
#include "lockstep/launch/job/error_file.h"
#include "lockstep/launch/job/report.h"
#include "lockstep/launch/node/spawn.h"
#include "lockstep/launch/node/worker_stream.h"

namespace lockstep::launch {

struct WorkerGroup::Worker {
  int local_rank = 0;
  int rank = 0;
  Child child;  // None before it is started and after it has ended.
  WorkerFiles files;
  WorkerRoutes routes;
  std::optional<Capture> out;
  std::optional<Capture> err;
};

WorkerGroup::WorkerGroup(const Context& context, EventLoop& loop, Consoles& consoles,
                         const Start& start)
    : context_(context), loop_(loop), consoles_(consoles), start_(start) {
  workers_.resize(static_cast<std::size_t>(context.options.workers));
}

WorkerGroup::~WorkerGroup() {
  for (auto& worker : workers_) {
    for (auto* capture : {&worker.out, &worker.err}) {
      if (*capture) {
        loop_.forget((*capture)->fd());
      }
    }
  }
}

void WorkerGroup::start() {
  if (!context_.environment.has("GLOO_SOCKET_IFNAME")) {
    interface_ = interface_towards(start_.plan.master_addr);
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    worker.local_rank = static_cast<int>(i);
    worker.rank = first_rank(start_.plan, start_.node_rank) + worker.local_rank;
    try {
      start_worker(worker);
    } catch (const IoError& error) {
      throw IoError("starting rank " + std::to_string(worker.rank) + " (local rank " +
                    std::to_string(i) + "): " + error.what());
    }
  }
}

void WorkerGroup::start_worker(Worker& worker) {
  const auto& options = context_.options;
  worker.files = make_worker_folder(context_.folder, start_.plan.attempt, worker.local_rank);
  worker.routes = routes_of(options.logs, worker.local_rank);
  const std::string prefix =
      expand_prefix(options.logs.prefix_template,
                    {options.role, worker.rank, worker.local_rank, options.nodes.name});
  const auto linked = [this, rank = worker.local_rank](auto stream) {
    return [this, rank, stream] { return find_log(rank, stream); };
  };
  const StreamEnd out = open_stream(
      worker.routes.out,
      {worker.files.out, &consoles_.out, prefix, &consoles_.err, linked(&WorkerFiles::out)},
      /*keep_tail=*/false, worker.out);
  const StreamEnd err = open_stream(
      worker.routes.err,
      {worker.files.err, &consoles_.err, prefix, &consoles_.err, linked(&WorkerFiles::err)},
      /*keep_tail=*/true, worker.err);
  ChildSpec spec;
  spec.path = context_.program.path;
  spec.arguments = context_.program.arguments;
  spec.environment = environment_of(worker);
  spec.stdout_fd = out.fd;
  spec.stderr_fd = err.fd;
  worker.child = start_child(spec, *context_.signals);
  watch(worker.out);
  watch(worker.err);
}

Environment WorkerGroup::environment_of(const Worker& worker) const {
  const auto& options = context_.options;
  Environment environment = context_.environment;
  const auto add = [&](const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) {
      environment.set(name, value);
    }
  };
  add(default_environment(context_.environment, context_.machine.cores, options.workers));
  add(worker_environment(start_.plan, start_.node_rank, worker.local_rank));
  environment.set("TORCHELASTIC_ERROR_FILE", worker.files.error);
  // That of a launcher around this one is not for our workers.
  if (options.logs.named_by_worker || environment.has(kLogLink)) {
    environment.set(kLogLink, options.logs.named_by_worker ? log_link(context_.folder) : "");
  }
  environment.set("TORCHELASTIC_SIGNALS_TO_HANDLE", options.signal_names);
  // Else Python's Gloo listens wherever this machine's own name happens to lead. Several nodes that
  // seem to meet on loopback know their master by a name that only its own hosts file maps there.
  if (interface_ && (*interface_ != "lo" || is_loopback_name(start_.plan.master_addr))) {
    environment.set("GLOO_SOCKET_IFNAME", *interface_);
  }
  if (!options.gpu_ids.empty()) {
    std::string ids;
    for (const int id : options.gpu_ids) {
      ids.append(ids.empty() ? "" : ",").append(std::to_string(id));
    }
    environment.set("CUDA_VISIBLE_DEVICES", ids);
  }
  return environment;
}

std::optional<std::string> WorkerGroup::find_log(int local_rank,
                                                 std::string WorkerFiles::* stream) {
  try {
    return linked_file(context_.folder, start_.plan.attempt, local_rank, stream);
  } catch (const IoError& error) {
    if (!std::exchange(said_that_logs_are_lost_, true)) {
      consoles_.err.say(
          std::string("lockstep run: the output of workers of this start is not kept in logs: ") +
          error.what() + "\n");
    }
    return std::nullopt;
  }
}

void WorkerGroup::watch(std::optional<Capture>& capture) {
  if (capture) {
    loop_.watch(capture->fd(), POLLIN, [this, &capture] { read(capture); });
  }
}

void WorkerGroup::read(std::optional<Capture>& capture) {
  if (!capture->read_some()) {
    loop_.forget(capture->fd());
    capture->finish();
    capture->close();
  }
}

void WorkerGroup::update_watches() {
  const bool pause = consoles_.out.full() || consoles_.err.full();
  if (pause == paused_) {
    return;
  }
  paused_ = pause;
  for (auto& worker : workers_) {
    for (auto* capture : {&worker.out, &worker.err}) {
      if (!*capture || (*capture)->fd() < 0) {
        continue;
      }
      if (pause) {
        loop_.forget((*capture)->fd());
      } else {
        watch(*capture);
      }
    }
  }
}

void WorkerGroup::signal(int number) {
  told_to_stop_ = told_to_stop_.value_or(coarse_now());
  for (const auto& worker : workers_) {
    signal_child(worker.child, number);
  }
}

void WorkerGroup::pass_on(int number) {
  for (const auto& worker : workers_) {
    signal_child(worker.child, number, Reach::kProcess);
  }
}

void WorkerGroup::on_exits(const std::vector<ChildExit>& exits) {
  const std::size_t known = failures_.size();
  for (const auto& exit : exits) {
    const auto worker = std::find_if(workers_.begin(), workers_.end(),
                                     [&](const Worker& w) { return w.child.pid == exit.pid; });
    if (worker != workers_.end()) {
      record(*worker, exit.status);
      worker->child = {};  // Its pid may be another child's next.
    }
  }
  // The kernel does not tell which of several workers ended first if we see them end at the same
  // moment. Their own clocks do, if all of them wrote an error file. Otherwise the lowest rank of
  // those that tell a reason, if any, stands for all that ended alike.
  const auto first_new = failures_.begin() + static_cast<std::ptrdiff_t>(known);
  if (std::all_of(first_new, failures_.end(), [](const auto& f) { return f.timestamp != 0; })) {
    std::sort(first_new, failures_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.timestamp, a.rank) < std::pair(b.timestamp, b.rank);
    });
  } else if (std::all_of(first_new, failures_.end(),
                         [&](const auto& f) { return ended_alike(f, *first_new); })) {
    std::sort(first_new, failures_.end(), [](const auto& a, const auto& b) {
      return std::pair(!has_reason(a), a.rank) < std::pair(!has_reason(b), b.rank);
    });
  }
  // One that stopped in order saw no failure: another that we see at the same time came first.
  std::stable_partition(first_new, failures_.end(),
                        [](const Failure& failure) { return !stopped_in_order(failure); });
}

void WorkerGroup::record(Worker& worker, int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return;
  }
  Failure failure;
  failure.rank = worker.rank;
  failure.local_rank = worker.local_rank;
  failure.node_rank = start_.node_rank;
  failure.host = context_.options.nodes.name;
  failure.pid = worker.child.pid;
  failure.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  failure.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const ErrorNote note = read_error_note(worker.files.error);
  const bool failed_before =
      failure.signal == 0 && !note.empty() && told_to_stop_ && note.written < *told_to_stop_;
  failure.stopped_by_us = told_to_stop_ && !failed_before;
  failure.message = last_lines(note.message, kTailLines);
  failure.traceback = innermost_frames(note.traceback, kTailLines);
  failure.timestamp = note.timestamp;
  if (worker.routes.err.file && !context_.folder.temporary) {
    failure.log_path = worker.files.err;
  }
  failures_.push_back(std::move(failure));
}

std::string WorkerGroup::stderr_tail(const Worker& worker) const {
  return last_lines(worker.err ? worker.err->tail() : end_of_file(worker.files.err), kTailLines);
}

// A worker that writes straight to a full disk cannot say so there.
std::string WorkerGroup::full_log_of(const Worker& worker) const {
  const std::string why = worker.routes.straight_to_file() ? context_.folder.why_full() : "";
  const bool out = worker.routes.out.straight_to_file();
  // The reason first: a report cuts long lines, and paths can be long.
  return why.empty() ? ""
                     : why + " for the log '" + (out ? worker.files.out : worker.files.err) + "'";
}

std::string WorkerGroup::full_log() const {
  const auto first = std::find_if(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.routes.straight_to_file();
  });
  return first == workers_.end() ? "" : full_log_of(*first);
}

std::vector<Failure> WorkerGroup::failures() const {
  std::vector<Failure> complete = failures_;
  prefer_reason(complete);
  for (auto& failure : complete) {
    const Worker& worker = workers_[static_cast<std::size_t>(failure.local_rank)];
    failure.stderr_tail = stderr_tail(worker);
    if (worker.routes.err.late) {
      failure.log_path = worker.err->file();
    }
    if (const auto full = full_log_of(worker); !full.empty()) {
      failure.message.append(failure.message.empty() ? "" : "\n").append(full);
    }
  }
  return complete;
}

void WorkerGroup::drain(Deadline deadline) {
  for (auto& worker : workers_) {
    for (auto* capture : {&worker.out, &worker.err}) {
      while (*capture && (*capture)->fd() >= 0 && !deadline.passed()) {
        pollfd readable{(*capture)->fd(), POLLIN, 0};
        ::poll(&readable, 1, deadline.poll_timeout());
        read(*capture);
      }
    }
  }
}

int WorkerGroup::running() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(),
                                        [](const auto& w) { return w.child.pid != 0; }));
}

std::string WorkerGroup::running_ranks() const {
  std::vector<std::string> ranks;
  for (const auto& worker : workers_) {
    if (worker.child.pid != 0) {
      ranks.push_back(std::to_string(worker.rank) + " (pid " + std::to_string(worker.child.pid) +
                      ")");
    }
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + join(ranks, ", ");
}

}  // namespace lockstep::launch
