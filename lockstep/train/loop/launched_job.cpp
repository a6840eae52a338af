#include "lockstep/train/loop/launched_job.h"

#include <unistd.h>

#include <filesystem>

#include "lockstep/base/environment.h"
#include "lockstep/base/process_state.h"

namespace lockstep::train {

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
  // FOLDER/attempt_2/0/error.json, by torchrun and lockstep run.
  const auto attempt =
      std::filesystem::path(environment.get("TORCHELASTIC_ERROR_FILE").value_or(""))
          .parent_path()
          .parent_path();
  if (attempt.filename().string().starts_with("attempt_")) {
    return id + " " + attempt.parent_path().string();
  }
  const auto launcher = identify(::getppid());
  return id + " " + std::to_string(launcher.pid) + " " + std::to_string(launcher.start_time);
}

}  // namespace lockstep::train
