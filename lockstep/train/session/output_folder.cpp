#include "lockstep/train/session/output_folder.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

}  // namespace

void require_output_folder(const std::string& output) {
  std::error_code error;
  for (auto place = fs::absolute(output, error);; place = place.parent_path()) {
    const auto status = fs::status(place, error);
    if (fs::exists(status) && !fs::is_directory(status)) {
      throw UsageError("--output is '" + output + "', but '" + place.string() +
                       "' is no folder, expected one, or a path where one can be made; HINT: "
                       "--output " +
                       (place.parent_path() / "runs").string());
    }
    if (fs::exists(status) || !place.has_relative_path()) {
      return;
    }
  }
}

std::string why_no_folder_in(const std::string& output) {
  std::error_code error;
  auto place = fs::absolute(output, error);
  while (!fs::exists(place, error) && place.has_relative_path()) {
    place = place.parent_path();
  }
  struct statfs system{};
  const bool is_of_kernel = ::statfs(place.c_str(), &system) == 0 &&
                            (system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC);
  if (is_of_kernel) {
    return "'" + place.string() + "' is the kernel's, where no folder can be made";
  }
  if (::faccessat(AT_FDCWD, place.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return "no folder can be made in '" + place.string() + "': " + std::strerror(errno);
  }
  return "";
}

}  // namespace lockstep::train
