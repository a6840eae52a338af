#include "lockstep/comm/spawn.h"

#include <ATen/Parallel.h>
#include <cxxabi.h>
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
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/host.h"
#include "lockstep/base/process_tree.h"
#include "lockstep/base/socket.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kGrace{5};  // Between SIGTERM and SIGKILL.
constexpr std::size_t kLongestMessage = 64 * 1024;

struct Child {
  int rank = 0;
  pid_t pid = 0;
  UniqueFd message;  // What it threw; end of file when it is gone.
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

void require_first() {
  std::error_code error;
  const auto tasks = std::filesystem::directory_iterator("/proc/self/task", error);
  const auto threads = std::distance(begin(tasks), end(tasks));
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

// Never returns: the parent's own cleanup must not run twice.
[[noreturn]] void run_child(int rank, int nprocs, int store_port,
                            const std::function<void(int)>& fn, int message) {
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
  int code = 0;
  try {
    fn(rank);
  } catch (const std::exception& error) {
    write_all(message, text_of(error));
    code = 1;
  } catch (...) {
    write_all(message, "an exception that is no std::exception");
    code = 1;
  }
  std::fflush(nullptr);
  std::_Exit(code);
}

std::string read_message(const Child& child) {
  std::string text;
  char block[4096];
  for (ssize_t got = 0; (got = ::read(child.message.get(), block, sizeof block)) > 0;) {
    text.append(block, static_cast<std::size_t>(got));
  }
  return text;
}

std::string describe_end(int status) {
  return WIFSIGNALED(status) ? "was killed by " + signal_name(WTERMSIG(status))
                             : "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

// Waits until a child's pipe closes, which is when it ends; false at the deadline.
bool wait_for_an_end(std::vector<Child>& children, Deadline deadline) {
  std::vector<pollfd> waits;
  std::vector<Child*> living;
  for (auto& child : children) {
    if (!child.status) {
      waits.push_back({child.message.get(), POLLIN, 0});
      living.push_back(&child);
    }
  }
  if (::poll(waits.data(), waits.size(), deadline.poll_timeout()) <= 0) {
    return false;
  }
  for (std::size_t i = 0; i < waits.size(); ++i) {
    // Readable: a message is there, and the end follows it at once.
    int status = 0;
    if (waits[i].revents != 0 && ::waitpid(living[i]->pid, &status, 0) == living[i]->pid) {
      living[i]->status = status;
    }
  }
  return true;
}

void end_all(std::vector<Child>& children) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    for (const auto& child : children) {
      if (!child.status) {
        ::kill(child.pid, signal);
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

// The ranks' store lives in the parent, which has its threads only now, after the last fork:
// no rank is special, and one that is early waits in the socket's queue.
c10::intrusive_ptr<c10d::TCPStore> serve_store(Listener listener, std::vector<Child>& children) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(listener.port);
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = listener.fd.release();
  try {
    return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  } catch (const std::exception&) {
    end_all(children);
    throw;
  }
}

}  // namespace

void spawn(int nprocs, const std::function<void(int rank)>& fn) {
  if (nprocs < 1) {
    throw UsageError("spawn: nprocs is " + std::to_string(nprocs) + ", expected 1 or more");
  }
  require_first();
  std::fflush(nullptr);  // Or every child would print again what is in the buffers.
  const pid_t parent = ::getpid();
  Listener listener = listen_on({"127.0.0.1", 0});
  std::vector<Child> children;
  for (int rank = 0; rank < nprocs; ++rank) {
    Pipe pipe = make_pipe();
    const pid_t pid = ::fork();
    if (pid == 0) {
      if (!die_with_parent(SIGKILL, parent)) {
        std::_Exit(1);
      }
      children.clear();
      listener.fd.reset();
      run_child(rank, nprocs, listener.port, fn, pipe.write_end.get());
    }
    if (pid < 0) {
      const int error = errno;
      end_all(children);
      errno = error;
      throw_errno("spawn: starting rank " + std::to_string(rank) + " of " + std::to_string(nprocs));
    }
    children.push_back({rank, pid, std::move(pipe.read_end), std::nullopt});
  }

  const auto store = serve_store(std::move(listener), children);
  for (int left = nprocs; left > 0;) {
    wait_for_an_end(children, Deadline::in(std::chrono::hours(1)));
    left = 0;
    for (const auto& child : children) {
      left += child.status ? 0 : 1;
      if (child.status && *child.status != 0) {
        const std::string thrown = read_message(child);
        const std::string who = "spawn: rank " + std::to_string(child.rank) + " (pid " +
                                std::to_string(child.pid) + ") ";
        end_all(children);
        throw SpawnError(child.rank,
                         who + (thrown.empty() ? describe_end(*child.status) : "threw " + thrown));
      }
    }
  }
}

}  // namespace lockstep
