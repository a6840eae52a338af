#include "lockstep/log/resume_events.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
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

bool is_kept(const Event& event, const LastEvents& last) {
  const auto is_made_again = [&](const SummaryValue& value) {
    return std::ranges::find(last.made_again, value.tag) != last.made_again.end();
  };
  return event.step < last.step ||
         (event.step == last.step && std::ranges::none_of(event.summary, is_made_again));
}

// Where the first event that is not kept begins; the end of the last whole record if there is none.
std::size_t end_of_kept(std::string_view bytes, const std::string& name, const LastEvents& last) {
  RecordReader records(bytes, name);
  auto offset = records.offset();
  while (const auto payload = records.next()) {
    if (!is_kept(parse_event(*payload), last)) {
      return offset;
    }
    offset = records.offset();
  }
  return offset;
}

void cut_file(const std::string& path, const LastEvents& last) {
  const std::string bytes = read_file(path, kMostBytes);
  const std::size_t end = end_of_kept(bytes, path, last);
  if (end == bytes.size()) {
    return;
  }
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(end)) != 0) {
    throw_errno("cutting '" + path + "' to the steps that a resumed run has done");
  }
}

}  // namespace

void drop_events_after(const std::string& folder, const LastEvents& last,
                       const OnWarning& on_warning) {
  for (const auto& path : event_files(folder)) {
    try {
      cut_file(path, last);
    } catch (const IoError& error) {
      on_warning(error.what());
    }
  }
}

}  // namespace lockstep::log
