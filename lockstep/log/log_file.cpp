#include "lockstep/log/log_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/no_sigpipe.h"

namespace lockstep::log {
namespace {

// Writes everything at this offset; false, with errno, if the disk refuses.
bool write_at(int file, std::string_view data, std::int64_t offset) {
  const NoSigxfsz no_sigxfsz;
  while (!data.empty()) {
    const ssize_t written = ::pwrite(file, data.data(), data.size(), offset);
    if (written < 0 && errno != EINTR) {
      return false;
    }
    if (written > 0) {
      data.remove_prefix(static_cast<std::size_t>(written));
      offset += written;
    }
  }
  return true;
}

// Takes the lock until the file is closed. Where the file system has no locks there is none.
bool is_locked_elsewhere(int file) {
  int failed = 0;
  do {
    failed = ::flock(file, LOCK_EX | LOCK_NB);
  } while (failed != 0 && errno == EINTR);
  return failed != 0 && errno == EWOULDBLOCK;
}

// The length of a file without what follows its last line end; -1, with errno, if it cannot be
// read.
std::int64_t whole_lines(int file, std::int64_t size) {
  while (size > 0) {
    char c = '\0';
    const ssize_t count = ::pread(file, &c, 1, size - 1);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return -1;
    }
    if (count == 1 && c == '\n') {
      break;
    }
    --size;
  }
  return size;
}

}  // namespace

void warn_on_stderr(const std::string& warning) {
  write_all(STDERR_FILENO, "lockstep: warning: " + warning + "\n");
}

LogFile::LogFile(std::string path, OpenLog how, OnWarning on_warning)
    : path_(std::move(path)), on_warning_(std::move(on_warning)) {
  const int flags =
      O_CREAT | O_CLOEXEC | O_NOFOLLOW | (how == OpenLog::kNew ? O_WRONLY | O_EXCL : O_RDWR);
  file_.reset(::open(path_.c_str(), flags, 0600));
  if (file_ && how == OpenLog::kLines && is_locked_elsewhere(file_.get())) {
    throw IoError("opening the log file '" + path_ +
                  "': another writer has it open, and two overwrite each other; let one rank alone "
                  "write it, or end the run that still does");
  }
  struct stat status{};
  if (!file_ || ::fstat(file_.get(), &status) != 0) {
    throw_errno("opening the log file '" + path_ + "'");
  }
  if (how == OpenLog::kLines) {
    size_ = whole_lines(file_.get(), status.st_size);
    if (size_ < 0) {  // Nothing is cut: what cannot be read may be all of it.
      throw_errno("reading the log file '" + path_ + "'");
    }
    if (::ftruncate(file_.get(), size_) != 0) {
      throw_errno("cutting the log file '" + path_ + "' behind its last line");
    }
  }
}

void LogFile::append(std::string_view record) {
  std::unique_lock lock(mutex_);
  require_open();
  const auto what = write(record);
  warn(std::move(lock), what);
}

std::string LogFile::content() {
  std::unique_lock lock(mutex_);
  std::string text(file_ ? static_cast<std::size_t>(size_) : 0, '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = ::pread(file_.get(), text.data() + filled, text.size() - filled,
                                static_cast<off_t>(filled));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      warn(std::move(lock), got < 0 ? std::strerror(errno) : "it is shorter than it was");
      return "";
    }
    filled += static_cast<std::size_t>(got);
  }
  return text;
}

void LogFile::cut(std::int64_t size) {
  std::unique_lock lock(mutex_);
  require_open();
  if (!file_ || size >= size_) {
    return;
  }
  if (::ftruncate(file_.get(), size) != 0) {
    warn(std::move(lock),
         "cannot be cut to what a resumed run has done: " + std::string(std::strerror(errno)));
    return;
  }
  size_ = size;
}

void LogFile::require_open() const {
  if (closed_) {
    throw UsageError("the log '" + path_ + "' is closed; make a new one to go on");
  }
}

void LogFile::flush() {
  std::unique_lock lock(mutex_);
  const auto what = sync();
  warn(std::move(lock), what);
}

void LogFile::close() {
  std::unique_lock lock(mutex_);
  const auto what = sync();
  file_.reset();
  closed_ = true;
  warn(std::move(lock), what);
}

std::string LogFile::write(std::string_view record) {
  if (auto why = why_gone(); !why.empty() || !file_) {
    return why;
  }
  if (write_at(file_.get(), record, size_)) {
    size_ += static_cast<std::int64_t>(record.size());
    return "";
  }
  const int error = errno;
  // Half a record would hide all later ones from readers. There may be space again for those.
  if (::ftruncate(file_.get(), size_) != 0) {
    const std::string why = std::strerror(errno);
    file_.reset();
    return "cannot take back half a record: " + why;
  }
  return std::string(std::strerror(error)) +
         "; what cannot be written is left out of the log, and training goes on; " +
         (error == EFBIG ? "raise the limit of file sizes (ulimit -f)" : "free some space");
}

std::string LogFile::sync() {
  if (auto why = why_gone(); !why.empty() || !file_) {
    return why;
  }
  const bool failed = ::fdatasync(file_.get()) != 0 && errno != EINVAL;  // EINVAL: a pipe.
  return failed ? std::strerror(errno) : "";
}

std::string LogFile::why_gone() {
  struct stat status{};
  if (!file_) {
    return "";
  }
  if (::fstat(file_.get(), &status) != 0) {
    return std::string(std::strerror(errno)) +
           "; what comes while the file cannot be reached is left out of the log, and training "
           "goes on";
  }
  // A file without a name is lost with its last descriptor: nobody can ever read it.
  if (status.st_nlink == 0) {
    file_.reset();
    return "the file was removed; nothing more is logged, and training goes on";
  }
  return "";
}

void LogFile::warn(std::unique_lock<std::mutex> lock, const std::string& what) {
  if (what.empty() || std::exchange(warned_, true) || !on_warning_) {
    return;
  }
  lock.unlock();
  try {
    on_warning_("writing '" + path_ + "': " + what);
  } catch (...) {  // NOLINT(bugprone-empty-catch): see OnWarning.
  }
}

}  // namespace lockstep::log
