#include "lockstep/launch/node/capture.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

constexpr std::size_t kTail = std::size_t{64} << 10;
constexpr std::size_t kLongestLine = std::size_t{64} << 10;

}  // namespace

UniqueFd create_log_file(const std::string& path) {
  UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) {
    throw_errno("making the log file '" + path + "'");
  }
  return file;
}

Capture::Capture(UniqueFd pipe, CaptureTarget target)
    : pipe_(std::move(pipe)), target_(std::move(target)) {
  set_nonblocking(pipe_.get());
  if (!target_.file.empty()) {
    file_ = create_log_file(target_.file);
  }
}

bool Capture::read_some() {
  char block[65536];
  const ssize_t got = ::read(pipe_.get(), block, sizeof block);
  if (got > 0) {
    take({block, static_cast<std::size_t>(got)});
    return true;
  }
  return got < 0 && (errno == EAGAIN || errno == EINTR);
}

void Capture::finish() {
  if (target_.find_file) {
    open_found_file();
  }
  if (!line_.empty() && target_.console != nullptr) {
    target_.console->write(target_.prefix + line_ + "\n");
  }
  line_.clear();
}

void Capture::take(std::string_view bytes) {
  tail_ += bytes;
  if (tail_.size() > 2 * kTail) {
    tail_.erase(0, tail_.size() - kTail);
  }
  if (target_.find_file) {
    open_found_file();
  } else {
    keep(bytes);
  }
  if (target_.console != nullptr) {
    show(bytes);
  }
}

// Opens the log as soon as its path is known. The tail has what came before, or the end of that.
void Capture::open_found_file() {
  try {
    const auto path = target_.find_file();
    if (path && path->empty()) {
      return;
    }
    if (path) {
      file_ = create_log_file(*path);
      target_.file = *path;
    }
  } catch (const IoError& error) {
    complain(error.what());
  }
  target_.find_file = nullptr;
  keep(tail_);
}

void Capture::keep(std::string_view bytes) {
  if (file_ && !write_all(file_.get(), bytes)) {
    const std::string why = std::generic_category().message(errno);
    file_.reset();
    complain("the log '" + target_.file + "' ends here: " + why);
  }
}

void Capture::complain(const std::string& why) const {
  if (target_.complaints != nullptr) {
    target_.complaints->say("lockstep run: " + why + "\n");
  }
}

void Capture::show(std::string_view bytes) {
  if (target_.prefix.empty()) {
    target_.console->write(bytes);
    return;
  }
  std::string shown;
  while (!bytes.empty()) {
    const auto newline = bytes.find('\n');
    const auto taken = newline == std::string_view::npos ? bytes.size() : newline + 1;
    line_ += bytes.substr(0, taken);
    bytes.remove_prefix(taken);
    if (line_.back() != '\n' && line_.size() >= kLongestLine) {
      line_ += '\n';
    }
    if (line_.back() == '\n') {
      shown += target_.prefix + line_;
      line_.clear();
    }
  }
  target_.console->write(shown);
}

}  // namespace lockstep::launch
