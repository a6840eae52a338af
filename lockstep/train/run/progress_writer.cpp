#include "lockstep/train/run/progress_writer.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "lockstep/base/fd.h"
#include "lockstep/base/sockets/no_sigpipe.h"
#include "lockstep/base/text/text.h"

namespace lockstep::train {
namespace {

constexpr std::chrono::milliseconds kBetweenLines{100};
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

ProgressWriter::ProgressWriter(int fd, const Environment& environment)
    : fd_(fd),
      is_terminal_(::isatty(fd) == 1 && environment.get("TERM").value_or("") != "dumb"),
      color_(is_terminal_ && !environment.has("NO_COLOR")) {
  const auto columns = parse_int(environment.get("COLUMNS").value_or(""));
  if (columns && *columns > 0 && *columns < 10000) {
    columns_ = static_cast<int>(*columns);
  }
}

ProgressWriter::~ProgressWriter() { finish(); }

bool ProgressWriter::is_due() const {
  return !is_terminal_ || std::chrono::steady_clock::now() >= next_;
}

void ProgressWriter::show(const Progress& progress) {
  if (!is_terminal_) {
    write(plain_line(progress) + "\n");
    return;
  }
  next_ = std::chrono::steady_clock::now() + kBetweenLines;
  if (!takes_output()) {
    return;
  }
  shown_ = progress_line(progress, {.width = line_width(), .color = color_});
  write(kClearLine + shown_);
}

void ProgressWriter::say(const std::string& text) {
  if (shown_.empty()) {
    write(text + "\n");
  } else {
    write(kClearLine + text + "\n" + shown_);
  }
}

void ProgressWriter::finish() {
  if (!shown_.empty()) {
    write("\n");
    shown_.clear();
  }
}

// Not while a terminal is stopped by Ctrl-S: training would stop with it.
bool ProgressWriter::takes_output() const {
  pollfd output{fd_, POLLOUT, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & POLLOUT) != 0;
}

void ProgressWriter::write(const std::string& text) const {
  const NoSigpipe no_sigpipe;
  write_all(fd_, text);
}

int ProgressWriter::width() const {
  winsize size{};
  if (::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return columns_;
}

}  // namespace lockstep::train
