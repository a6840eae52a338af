#include "lockstep/launch/job/error_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "lockstep/base/fd.h"
#include "lockstep/base/text/text.h"
#include "lockstep/launch/job/report.h"

namespace lockstep::launch {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

std::chrono::nanoseconds to_duration(const timespec& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t time_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) {
    return 0;
  }
  if (found->is_number_integer()) {
    return found->get<std::int64_t>();
  }
  return found->is_string() ? parse_int(found->get<std::string>()).value_or(0) : 0;
}

}  // namespace

ErrorNote parse_error_note(std::string_view json) {
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  ErrorNote note;
  if (!root.is_object() || !root.contains("message")) {
    return note;
  }
  const Json& message = root["message"];
  if (message.is_string()) {
    note.message = message.get<std::string>();
    note.timestamp = time_at(root, "timestamp");
  } else if (message.is_object()) {
    note.message = text_at(message, "message");
    const auto extra = message.find("extraInfo");
    if (extra != message.end() && extra->is_object()) {
      note.traceback = text_at(*extra, "py_callstack");
      note.timestamp = time_at(*extra, "timestamp");
    }
  }
  return note;
}

ErrorNote read_error_note(const std::string& path) {
  // Without O_NONBLOCK a pipe in the file's place would hold us for ever.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size <= 0 ||
      static_cast<std::size_t>(info.st_size) > kMostBytes) {
    return {};
  }
  std::string content(static_cast<std::size_t>(info.st_size), '\0');
  const ssize_t got = ::read(file.get(), content.data(), content.size());
  content.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  ErrorNote note = parse_error_note(content);
  note.written = to_duration(info.st_mtim);
  return note;
}

std::chrono::nanoseconds coarse_now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return to_duration(now);
}

bool write_error_note(const std::string& path, const ErrorNote& note, int exit_code) {
  const Json extra = {{"py_callstack", note.traceback},
                      {"timestamp", std::to_string(note.timestamp)}};
  const Json root = {
      {"message", {{"message", note.message}, {"errorCode", exit_code}, {"extraInfo", extra}}}};
  const UniqueFd file(::open(
      path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  return file && write_all(file.get(), root.dump(-1, ' ', false, Json::error_handler_t::replace));
}

ErrorNote note_of(const Failure& root_cause, bool several_nodes) {
  const std::string words =
      root_cause.message.empty() ? last_lines(root_cause.stderr_tail, 1) : root_cause.message;
  ErrorNote note;
  note.message = describe_worker(root_cause, several_nodes) + ": " + describe_end(root_cause) +
                 (words.empty() ? "" : ": " + words);
  note.traceback = root_cause.traceback;
  note.timestamp = root_cause.timestamp != 0 ? root_cause.timestamp : std::time(nullptr);
  return note;
}

}  // namespace lockstep::launch
