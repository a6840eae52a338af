#include "lockstep/log/resume_events.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/log/event.h"
#include "lockstep/log/record.h"

namespace lockstep::log {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // As read_events() reads.

std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const bool is_file = it->symlink_status(error).type() == std::filesystem::file_type::regular;
    if (is_file && it->path().filename().string().starts_with("events.out.tfevents.")) {
      files.push_back(it->path());
    }
  }
  return files;
}

// Where the first event of a later step begins; the end of the last whole record if there is none.
std::size_t end_of_step(std::string_view bytes, const std::string& name, std::int64_t last_step) {
  RecordReader records(bytes, name);
  auto offset = records.offset();
  while (const auto payload = records.next()) {
    if (parse_event(*payload).step > last_step) {
      return offset;
    }
    offset = records.offset();
  }
  return offset;
}

void cut_file(const std::string& path, std::int64_t last_step) {
  const std::string bytes = read_file(path, kMostBytes);
  const std::size_t end = end_of_step(bytes, path, last_step);
  if (end == bytes.size()) {
    return;
  }
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(end)) != 0) {
    throw_errno("cutting '" + path + "' to the steps that a resumed run has done");
  }
}

}  // namespace

void drop_events_after(const std::string& folder, std::int64_t last_step,
                       const OnWarning& on_warning) {
  for (const auto& path : event_files(folder)) {
    try {
      cut_file(path, last_step);
    } catch (const IoError& error) {
      on_warning(error.what());
    }
  }
}

}  // namespace lockstep::log
