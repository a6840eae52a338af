#include "lockstep/train/session/launched_job.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "lockstep/base/environment.h"
#include "lockstep/base/process/state.h"

namespace lockstep::train {
namespace {

// FOLDER/attempt_2 of FOLDER/attempt_2/0/error.json, by torchrun and lockstep run.
std::filesystem::path attempt_of(const Environment& environment) {
  const std::filesystem::path error_file = environment.get("TORCHELASTIC_ERROR_FILE").value_or("");
  auto attempt = error_file.parent_path().parent_path();
  return attempt.filename().string().starts_with("attempt_") ? attempt : std::filesystem::path();
}

}  // namespace

int restart_count() {
  return static_cast<int>(
      Environment::of_this_process().get_int("TORCHELASTIC_RESTART_COUNT").value_or(0));
}

bool restarts_allowed() {
  return Environment::of_this_process().get_int("TORCHELASTIC_MAX_RESTARTS").value_or(0) > 0;
}

std::string this_job() {
  const auto environment = Environment::of_this_process();
  const auto id = environment.get("TORCHELASTIC_RUN_ID").value_or("");
  const auto attempt = attempt_of(environment);
  if (!attempt.empty()) {
    return id + " " + attempt.parent_path().string();
  }
  const auto launcher = identify(::getppid());
  return id + " " + std::to_string(launcher.pid) + " " + std::to_string(launcher.start_time);
}

std::optional<std::chrono::system_clock::time_point> first_attempt_began() {
  const auto attempt = attempt_of(Environment::of_this_process());
  struct stat status{};
  if (attempt.empty() || ::stat((attempt.parent_path() / "attempt_0").c_str(), &status) != 0) {
    return std::nullopt;
  }
  const auto since = std::chrono::seconds(status.st_mtim.tv_sec) +
                     std::chrono::nanoseconds(status.st_mtim.tv_nsec);
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(since));
}

}  // namespace lockstep::train
