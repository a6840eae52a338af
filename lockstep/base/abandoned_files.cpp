#include "lockstep/base/abandoned_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "lockstep/base/fd.h"

namespace lockstep {

bool is_still_named(int fd, const std::string& path) {
  struct stat named{};
  struct stat opened{};
  return ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

void remove_abandoned_files(const std::string& folder, std::string_view prefix,
                            std::string_view keep) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), ::closedir);
  while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
    const std::string name = entry->d_name;
    if (!name.starts_with(prefix) || name == keep) {
      continue;
    }
    const std::string path = folder + "/" + name;
    // O_NONBLOCK: a lease that another user has on the file would be waited for.
    const UniqueFd file(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    struct stat status{};
    if (file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_uid == ::geteuid() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 &&
        is_still_named(file.get(), path)) {
      ::unlink(path.c_str());
    }
  }
}

}  // namespace lockstep
