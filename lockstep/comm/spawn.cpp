#include "lockstep/comm/spawn.h"

#include <ATen/Parallel.h>
#include <cxxabi.h>
#include <limits.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/host.h"
#include "lockstep/base/process/child.h"
#include "lockstep/base/process/tree.h"
#include "lockstep/base/sockets/socket.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kGrace{5};  // Between SIGTERM and SIGKILL.
constexpr std::chrono::milliseconds kThreadsEnd{200};
constexpr std::size_t kLongestMessage = PIPE_BUF;  // Fits into any pipe: writing it never blocks.

struct Child {
  int rank = 0;
  ChildProcess process;
  UniqueFd message;  // What it threw.
  std::optional<int> status;
};

bool uses_cuda() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    if (std::filesystem::read_symlink(entry.path(), error).string().starts_with("/dev/nvidia")) {
      return true;
    }
  }
  return false;
}

std::ptrdiff_t count_threads() {
  std::error_code error;
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task", error);
  return std::distance(begin(tasks), end(tasks));
}

void require_first() {
  // A thread that was joined is listed for a moment longer.
  const auto deadline = Deadline::in(kThreadsEnd);
  auto threads = count_threads();
  while (threads > 1 && !deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    threads = count_threads();
  }
  if (threads > 1) {
    throw UsageError("spawn: this process already has " + std::to_string(threads) +
                     " threads, expected 1, because fork() copies only one; call spawn() first in "
                     "main(), before tensors, loaders and process groups, or use 'lockstep run'");
  }
  if (uses_cuda()) {
    throw UsageError(
        "spawn: this process already uses CUDA, which does not survive fork(); call "
        "spawn() first in main(), or use 'lockstep run'");
  }
}

std::string text_of(const std::exception& error) {
  int status = 0;
  char* name = abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status);
  std::string text = std::string(status == 0 ? name : typeid(error).name()) + ": " + error.what();
  std::free(name);
  return text.substr(0, kLongestMessage);
}

// Never returns, and nothing escapes: the parent's own cleanup must not run twice.
[[noreturn]] void run_child(int rank, int nprocs, int store_port,
                            const std::function<void(int)>& fn, int message) noexcept {
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
  };
  set("RANK", std::to_string(rank));
  set("LOCAL_RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(nprocs));
  set("LOCAL_WORLD_SIZE", std::to_string(nprocs));
  set("GROUP_RANK", "0");
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(store_port));
  set("TORCHELASTIC_USE_AGENT_STORE", "True");
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    at::set_num_threads(std::max(1, usable_cores() / nprocs));
  }
  std::string thrown;
  try {
    fn(rank);
  } catch (const std::exception& error) {
    thrown = text_of(error);
  } catch (...) {
    thrown = "an exception that is no std::exception";
  }
  std::fflush(nullptr);
  write_all(message, thrown);
  std::_Exit(thrown.empty() ? 0 : 1);
}

// Does not block: the child has ended, even if something it forked still holds the pipe.
std::string read_message(const Child& child) {
  std::string text(kLongestMessage, '\0');
  set_nonblocking(child.message.get());
  const ssize_t got = ::read(child.message.get(), text.data(), text.size());
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

std::string describe_end(int status) {
  return WIFSIGNALED(status) ? "was killed by " + signal_name(WTERMSIG(status))
                             : "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

// Waits until a child ends; returns at the deadline at the latest.
void wait_for_an_end(std::vector<Child>& children, Deadline deadline) {
  std::vector<pollfd> waits;
  std::vector<Child*> living;
  for (auto& child : children) {
    if (!child.status) {
      waits.push_back({child.process.handle.get(), POLLIN, 0});
      living.push_back(&child);
    }
  }
  ::poll(waits.data(), waits.size(), deadline.poll_timeout());
  for (std::size_t i = 0; i < waits.size(); ++i) {
    int status = 0;
    if (waits[i].revents != 0 && ::waitpid(living[i]->process.pid, &status, 0) > 0) {
      living[i]->status = status;
    }
  }
}

void end_all(std::vector<Child>& children) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    for (const auto& child : children) {
      if (!child.status) {
        ::kill(child.process.pid, signal);
      }
    }
    const auto deadline = Deadline::in(kGrace);
    const auto living = [&] {
      return std::any_of(children.begin(), children.end(),
                         [](const Child& child) { return !child.status; });
    };
    while (living() && !deadline.passed()) {
      wait_for_an_end(children, deadline);
    }
  }
}

// The children. When this goes out of scope, all of them are ended and reaped.
class Ranks {
 public:
  // If the caller ignores SIGCHLD, the kernel would reap the children unseen.
  Ranks() {
    struct sigaction standard{};
    standard.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &standard, &before_);
  }
  ~Ranks() {
    end_all(children_);
    ::sigaction(SIGCHLD, &before_, nullptr);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void start(int rank, int nprocs, Listener& listener, const std::function<void(int)>& fn) {
    Pipe pipe = make_pipe();
    children_.reserve(static_cast<std::size_t>(nprocs));
    const std::string name =
        "spawn: starting rank " + std::to_string(rank) + " of " + std::to_string(nprocs);
    auto process = fork_child(name, SIGKILL, [&] {
      children_.clear();
      listener.fd.reset();
      run_child(rank, nprocs, listener.port, fn, pipe.write_end.get());
    });
    if (!process.handle) {
      const int error = errno;
      ::kill(process.pid, SIGKILL);
      ::waitpid(process.pid, nullptr, 0);
      errno = error;
      throw_errno("spawn: watching rank " + std::to_string(rank));
    }
    children_.push_back({rank, std::move(process), std::move(pipe.read_end), std::nullopt});
  }

  // Throws SpawnError for the first that failed.
  void join() {
    const auto living = [&] {
      return std::any_of(children_.begin(), children_.end(),
                         [](const Child& child) { return !child.status; });
    };
    while (living()) {
      wait_for_an_end(children_, Deadline::in(std::chrono::hours(1)));
      for (const auto& child : children_) {
        if (child.status && *child.status != 0) {
          const std::string thrown = read_message(child);
          throw SpawnError(child.rank,
                           "spawn: rank " + std::to_string(child.rank) + " (pid " +
                               std::to_string(child.process.pid) + ") " +
                               (thrown.empty() ? describe_end(*child.status) : "threw " + thrown));
        }
      }
    }
  }

 private:
  std::vector<Child> children_;
  struct sigaction before_{};
};

// The ranks' store lives in the parent, which has its threads only now, after the last fork:
// no rank is special, and one that is early waits in the socket's queue.
c10::intrusive_ptr<c10d::TCPStore> serve_store(Listener listener) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(listener.port);
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = listener.fd.release();
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

}  // namespace

void spawn(int nprocs, const std::function<void(int rank)>& fn) {
  if (nprocs < 1) {
    throw UsageError("spawn: nprocs is " + std::to_string(nprocs) + ", expected 1 or more");
  }
  require_first();
  std::fflush(nullptr);  // Or every child would print again what is in the buffers.
  Listener listener = listen_on({"127.0.0.1", 0});
  Ranks ranks;
  for (int rank = 0; rank < nprocs; ++rank) {
    ranks.start(rank, nprocs, listener, fn);
  }
  const auto store = serve_store(std::move(listener));
  ranks.join();
}

}  // namespace lockstep
