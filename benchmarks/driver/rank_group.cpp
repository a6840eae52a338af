#include "benchmarks/driver/rank_group.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "benchmarks/driver/start_program.h"
#include "benchmarks/orders.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"

namespace lockstep::bench {
namespace {

constexpr std::chrono::minutes kOrderLimit{3};
constexpr std::chrono::seconds kEndLimit{30};
constexpr std::size_t kShownErrors = 4096;

// The end of what the ranks wrote to stderr.
std::string tail_of(int fd) {
  const auto size = std::max<off_t>(::lseek(fd, 0, SEEK_END), 0);
  std::string text(std::min(static_cast<std::size_t>(size), kShownErrors), '\0');
  const auto got = ::pread(fd, text.data(), text.size(), size - static_cast<off_t>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

}  // namespace

RankGroup::RankGroup(int ranks, std::vector<std::string> command)
    : ranks_(ranks),
      command_(std::move(command)),
      orders_(make_pipe()),
      lines_(make_pipe()),
      errors_(::memfd_create("stderr of ranks", MFD_CLOEXEC)) {
  if (!errors_) {
    throw_errno("memory for the ranks' stderr");
  }
  // Launchers pass no descriptors on, but a pipe can be opened through the process that has it.
  const std::string orders =
      "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(orders_.read_end.get());
  std::replace(command_.begin(), command_.end(), std::string("{orders}"), orders);
  pid_ = start_program(command_, {.out = lines_.write_end.get(), .err = errors_.get()});
  lines_.write_end.reset();
}

RankGroup::~RankGroup() {
  if (pid_ > 0) {
    ::kill(pid_, SIGTERM);
    wait_for_end(Deadline::in(kEndLimit));
  }
}

void RankGroup::tell(const std::string& order) {
  std::string line = order;
  if (line.size() > kOrderBytes) {
    throw Error("the order '" + line + "' is longer than " + std::to_string(kOrderBytes) +
                " bytes");
  }
  line.resize(kOrderBytes, ' ');
  std::string lines;
  for (int rank = 0; rank < ranks_; ++rank) {
    lines += line;
  }
  write_all(orders_.write_end.get(), lines);
}

std::string RankGroup::answer() {
  const auto deadline = Deadline::in(kOrderLimit);
  std::string line;
  do {
    line = next_line(deadline);
  } while (!line.starts_with('{'));  // Gloo says on stdout that it is connected.
  return line;
}

void RankGroup::finish() {
  orders_ = {};
  const int status = wait_for_end(Deadline::in(kEndLimit));
  if (status != 0) {
    reject("ended with exit code " + std::to_string(status));
  }
}

std::string RankGroup::next_line(Deadline deadline) {
  for (;;) {
    const auto end = unread_.find('\n');
    if (end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    pollfd waiting{lines_.read_end.get(), POLLIN, 0};
    if (::poll(&waiting, 1, deadline.poll_timeout()) == 0) {
      reject("were not done after " + to_text(deadline.total()));
    }
    char block[4096];
    const ssize_t got = ::read(waiting.fd, block, sizeof block);
    if (got == 0) {
      const int status = wait_for_end(Deadline::in(kEndLimit));
      reject("ended with exit code " + std::to_string(status));
    }
    unread_.append(block, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
}

int RankGroup::wait_for_end(Deadline deadline) {
  const UniqueFd end(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  pollfd waiting{end.get(), POLLIN, 0};
  if (::poll(&waiting, 1, deadline.poll_timeout()) <= 0) {
    ::kill(pid_, SIGKILL);
  }
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void RankGroup::reject(const std::string& what) {
  throw Error("the ranks of '" + join(command_, " ") + "' " + what + ":\n" +
              tail_of(errors_.get()));
}

}  // namespace lockstep::bench
