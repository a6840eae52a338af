#include "lockstep/train/run/output_log.h"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace lockstep::train {

void OutputLog::write(const std::string& text) {
  if (!is_decided_) {
    early_ += text;
  } else if (file_ && !write_all(file_.get(), text)) {
    fail(errno);
  }
}

void OutputLog::open(const std::string& path, OnWarning on_warning) {
  is_decided_ = true;
  path_ = path;
  on_warning_ = std::move(on_warning);
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  file_.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file_) {
    fail(errno);
    return;
  }
  write(std::exchange(early_, {}));
}

void OutputLog::close() {
  is_decided_ = true;
  early_.clear();
  file_.reset();
}

// The warning may be printed, and come back here.
void OutputLog::fail(int error) {
  close();
  on_warning_("the log '" + path_ +
              "' ends here; training goes on: " + std::generic_category().message(error));
}

}  // namespace lockstep::train
