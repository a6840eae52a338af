#include "lockstep/launch/node/log_layout.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"

namespace lockstep::launch {
namespace {

constexpr const char* kDefaultPrefix = "[${role_name}${local_rank}]:";

// The run id is the user's text, but must stay one folder name.
std::string as_folder_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return c == '/' || std::iscntrl(static_cast<unsigned char>(c)) != 0; }, '_');
  return text.substr(0, 128);
}

// Eight random letters and digits: 41 bits, and a name that exists is an error, not an accident.
std::string random_suffix() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  unsigned char bytes[8] = {};
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
    throw IoError("naming the run's folder: no random numbers from the kernel");
  }
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kLetters[byte % kLetters.size()];
  }
  return text;
}

void make_private_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    throw_errno("making the folder '" + path + "'");
  }
}

bool is_shown(const LogOptions& logs, int local_rank) {
  return logs.shown_ranks.empty() || logs.shown_ranks.contains(local_rank);
}

StreamRoute route(bool redirect, bool tee, bool keep_all) {
  StreamRoute route;
  route.file = redirect || tee || keep_all;
  route.console = tee || !redirect;
  route.prefixed = tee;
  return route;
}

std::string value_of(std::string_view name, const PrefixNames& names, std::string_view unknown) {
  if (name == "role_name") {
    return names.role;
  }
  if (name == "local_rank") {
    return std::to_string(names.local_rank);
  }
  if (name == "rank") {
    return std::to_string(names.rank);
  }
  if (name == "hostname") {
    return names.host;
  }
  return std::string(unknown);
}

// The length of the identifier at the start of `text`, as Python's string.Template sees it.
std::size_t identifier_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() &&
         (std::isalpha(static_cast<unsigned char>(text[length])) != 0 || text[length] == '_' ||
          (length > 0 && std::isdigit(static_cast<unsigned char>(text[length])) != 0))) {
    ++length;
  }
  return length;
}

}  // namespace

void RunFolder::make() const {
  if (::mkdir(path.c_str(), 0700) != 0) {
    throw UsageError("making the folder '" + path + "': " + std::generic_category().message(errno));
  }
}

void RunFolder::remove_if_temporary() const {
  if (temporary && !path.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
}

std::string RunFolder::why_full() const {
  const std::string probe = path + "/.probe";
  const UniqueFd file(::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file) {
    ::unlink(probe.c_str());
  }
  const bool fits = file && write_all(file.get(), std::string(4096, '\0'));
  const bool full = !fits && (errno == ENOSPC || errno == EDQUOT);
  return full ? std::generic_category().message(errno) : "";
}

RunFolder choose_run_folder(const RunOptions& options, const Environment& environment) {
  if (!options.logs.folder.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.logs.folder, error);
    if (error || !std::filesystem::is_directory(options.logs.folder, error)) {
      throw UsageError("--log-dir is '" + options.logs.folder +
                       "': " + (error ? error.message() : "it is not a folder"));
    }
    // Workers may change their folder; their error file stays where it is.
    const std::string base = std::filesystem::canonical(options.logs.folder).string();
    return {base + "/" + as_folder_name(options.run_id) + "_" + random_suffix(), false};
  }
  const auto base = std::filesystem::absolute(environment.get("TMPDIR").value_or("/tmp"));
  return {base.string() + "/lockstep_" + random_suffix(), !options.logs.redirects.any()};
}

std::string log_link(const RunFolder& folder) { return folder.path + "/log"; }

WorkerRoutes routes_of(const LogOptions& logs, int local_rank) {
  const Streams redirects = logs.redirects.of(local_rank);
  const Streams tee = logs.tee.of(local_rank);
  const bool keep_all = !logs.folder.empty() && !logs.redirects.any() && !logs.tee.any();
  WorkerRoutes routes;
  routes.out = route(has_out(redirects), has_out(tee), keep_all);
  routes.err = route(has_err(redirects), has_err(tee), keep_all);
  if (logs.named_by_worker) {
    routes.out.late = !routes.out.file && local_rank != 0;
    routes.err.late = !routes.err.file;
  }
  if (!is_shown(logs, local_rank)) {
    routes.out.console = routes.err.console = false;
  }
  return routes;
}

WorkerFiles make_worker_folder(const RunFolder& folder, int attempt, int local_rank) {
  const std::string attempt_folder = folder.path + "/attempt_" + std::to_string(attempt);
  const std::string path = attempt_folder + "/" + std::to_string(local_rank);
  make_private_folder(attempt_folder);
  make_private_folder(path);
  return {path + "/stdout.log", path + "/stderr.log", path + "/error.json"};
}

std::string linked_file(const RunFolder& folder, int attempt, int local_rank,
                        std::string WorkerFiles::* stream) {
  std::error_code error;
  const auto kept = std::filesystem::read_symlink(log_link(folder), error);
  if (error) {
    return "";
  }
  const RunFolder there{(kept / std::filesystem::path(folder.path).filename()).string()};
  make_private_folder(there.path);
  return make_worker_folder(there, attempt, local_rank).*stream;
}

std::string expand_prefix(const std::string& text, const PrefixNames& names) {
  std::string_view rest = text.empty() ? kDefaultPrefix : std::string_view(text);
  std::string result;
  while (!rest.empty()) {
    const auto dollar = rest.find('$');
    result += rest.substr(0, dollar);
    if (dollar == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(dollar);
    const bool braces = rest.size() > 1 && rest[1] == '{';
    const std::size_t start = braces ? 2 : 1;
    const std::size_t length = identifier_length(rest.substr(std::min(start, rest.size())));
    std::size_t used = start + length;
    if (rest.starts_with("$$")) {
      result += '$';
      used = 2;
    } else if (length == 0 || (braces && (used >= rest.size() || rest[used] != '}'))) {
      result += '$';
      used = 1;
    } else {
      used += braces ? 1 : 0;
      result += value_of(rest.substr(start, length), names, rest.substr(0, used));
    }
    rest.remove_prefix(used);
  }
  return result;
}

}  // namespace lockstep::launch
