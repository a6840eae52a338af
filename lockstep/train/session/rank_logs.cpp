#include "lockstep/train/session/rank_logs.h"

#include <unistd.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/launch/node/log_layout.h"

namespace lockstep::train {

namespace fs = std::filesystem;

bool launcher_keeps_logs(const Environment& environment) {
  return environment.has(launch::kLogLink) && environment.has("TORCHELASTIC_ERROR_FILE");
}

std::string keep_rank_logs_in(const std::string& folder, const Environment& environment) {
  const fs::path link = environment.get(launch::kLogLink).value_or("");
  const auto there = fs::absolute(folder);
  ::unlink(link.c_str());  // That of the job's attempt before, maybe in another run.
  if (::symlink(there.c_str(), link.c_str()) != 0) {
    throw_errno("telling the launcher by the link '" + link.string() + "' where to keep logs");
  }
  // The error file lies beside the logs of this rank.
  const fs::path error_file = environment.get("TORCHELASTIC_ERROR_FILE").value_or("");
  const auto rank = error_file.parent_path().lexically_relative(link.parent_path());
  return (there / link.parent_path().filename() / rank / "stdout.log").string();
}

}  // namespace lockstep::train
