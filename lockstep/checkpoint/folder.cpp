#include "lockstep/checkpoint/folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/no_sigpipe.h"
#include "lockstep/checkpoint/pt_file.h"

namespace lockstep::checkpoint {
namespace {

constexpr const char* kNames[] = {"last.pt", "prev.pt", "best.pt"};

// "link/" would be what the link points to.
std::string without_slashes(const std::string& path) {
  const auto last = path.find_last_not_of('/');
  return last == std::string::npos ? path : path.substr(0, last + 1);
}

void refuse_link(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) {
    throw IoError("opening the folder of checkpoints '" + path +
                  "': it is a link, and links are not followed; name the folder it points to");
  }
}

// Others could replace the files. In a folder with the sticky bit they cannot.
void refuse_if_open_to_all(const std::string& path, int folder) {
  struct stat status{};
  if (::fstat(folder, &status) != 0) {
    throw_errno("looking at the folder of checkpoints '" + path + "'");
  }
  if ((status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0) {
    throw IoError("the folder of checkpoints '" + path +
                  "' can be written by everyone, who could replace them; chmod o-w it");
  }
}

// What an open() gave.
UniqueFd opened(int descriptor, const std::string& path) {
  UniqueFd folder(descriptor);
  if (!folder) {
    const int error = errno;
    refuse_link(path);
    errno = error;
    throw_errno("opening the folder of checkpoints '" + path + "'");
  }
  return folder;
}

UniqueFd open_folder(FileSystem& files, const std::string& path) {
  return opened(files.open_folder(path), path);
}

struct Place {
  FileSystem& files;
  const std::string& path;
  int folder;
  std::string suffix = {};  // For temporary names; empty where a lock keeps other writers away.

  [[nodiscard]] std::string temporary(const std::string& name) const {
    return "." + name + suffix + ".tmp";
  }
};

// Writers of one file that have no lock must not meet in a temporary one.
std::string random_suffix() {
  std::random_device random;
  char text[24];
  std::snprintf(text, sizeof text, ".%08x%08x", random(), random());
  return text;
}

// The steps of one replacement. What it made and did not rename goes with it.
class Steps {
 public:
  Steps(const Place& place, std::string name) : place_(place), name_(std::move(name)) {}
  ~Steps() {
    for (const std::string& name : made_) {
      place_.files.unlink(place_.folder, name);
    }
  }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  // A name as it is until the file is whole.
  [[nodiscard]] std::string temporary(const std::string& name) const {
    return place_.temporary(name);
  }

  // The file under its temporary name, on the disk.
  void write(const std::function<void(const Sink&)>& content) {
    const std::string name = temporary(name_);
    const UniqueFd file = create(name);
    const NoSigxfsz no_sigxfsz;
    content([&](std::span<const std::byte> bytes) {
      while (!bytes.empty()) {
        const ssize_t written = place_.files.write(file.get(), bytes);
        if (written < 0 && errno != EINTR) {
          fail("writing", name);
        }
        bytes = bytes.subspan(written > 0 ? static_cast<std::size_t>(written) : 0);
      }
    });
    // Once: after an error the kernel has dropped the pages, and a second call would succeed.
    if (place_.files.fsync(file.get()) != 0) {
      fail("syncing", name);
    }
  }

  UniqueFd create(const std::string& name) {
    remove(name);
    UniqueFd file(place_.files.create(place_.folder, name));
    if (!file) {
      fail("creating", name);
    }
    made_.push_back(name);
    return file;
  }

  // A second name for a file under a temporary name; false if there is no such file.
  bool link(const std::string& from, const std::string& name) {
    remove(temporary(name));
    if (place_.files.link(place_.folder, from, temporary(name)) != 0) {
      if (errno == ENOENT) {
        return false;
      }
      fail("linking '" + from + "' to", temporary(name));
    }
    made_.push_back(temporary(name));
    return true;
  }

  void rename(const std::string& name) {
    if (place_.files.rename(place_.folder, temporary(name), name) != 0) {
      fail("renaming '" + temporary(name) + "' to", name);
    }
    is_new_ = is_new_ || name == name_;
    // Two names of one file: rename() does nothing then, and both stay.
    remove(temporary(name));
  }

  void remove(const std::string& name) {
    if (place_.files.unlink(place_.folder, name) != 0 && errno != ENOENT) {
      fail("removing", name);
    }
    std::erase(made_, name);
  }

  void sync_folder() {
    if (place_.files.fsync(place_.folder) != 0) {
      fail("syncing the folder of", name_);
    }
  }

  [[noreturn]] void fail(const std::string& what, const std::string& name) const {
    const int error = errno;
    struct stat status{};
    const bool is_there =
        ::fstatat(place_.folder, name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
    const char* state = is_new_    ? "the new file already"
                        : is_there ? "what it was before"
                                   : "not there";
    errno = error;
    throw_errno("saving a checkpoint ('" + name_ + "' is " + state + "): " + what + " '" +
                place_.path + "/" + name + "'");
  }

 private:
  Place place_;
  std::string name_;
  std::vector<std::string> made_;
  bool is_new_ = false;
};

// The old file goes to `previous` last: it may be damaged, and `previous` the only sound one.
void replace(const Place& place, const Replacement& replacement,
             const std::function<void(const Sink&)>& write) {
  Steps steps(place, replacement.name);
  steps.write(write);
  const bool had_one =
      !replacement.previous.empty() && steps.link(replacement.name, replacement.previous);
  if (!replacement.also.empty()) {  // Before it is the newest, which a restarted run goes on from.
    steps.link(steps.temporary(replacement.name), replacement.also);
    steps.rename(replacement.also);
  }
  steps.rename(replacement.name);
  steps.sync_folder();
  if (had_one) {
    steps.rename(replacement.previous);
  }
}

// Without links the first save would work, and no other.
void check_links(const Place& place) {
  Steps steps(place, kNames[0]);
  const std::string from = place.temporary(kNames[0]);
  const std::string to = place.temporary(kNames[1]);
  steps.create(from);
  if (place.files.link(place.folder, from, to) != 0) {
    if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) {
      steps.fail("linking '" + from + "' to", to);
    }
    throw_errno("the folder of checkpoints '" + place.path +
                "' cannot have two names for one file, which keeps the old checkpoint until the "
                "new one is whole; choose a folder on a file system with hard links");
  }
  steps.remove(to);
  steps.remove(from);
}

}  // namespace

void replace_file(FileSystem& files, const std::string& folder, const Replacement& replacement,
                  const std::function<void(const Sink&)>& write) {
  const UniqueFd descriptor = open_folder(files, folder);
  refuse_if_open_to_all(folder, descriptor.get());
  replace({files, folder, descriptor.get(), random_suffix()}, replacement, write);
}

Folder::Folder(const std::string& path, FileSystem& files)
    : path_(without_slashes(path)), files_(files), folder_(open_folder(files_, path_)) {
  refuse_if_open_to_all(path_, folder_.get());
  if (files_.lock(folder_.get()) != 0) {
    if (errno == EWOULDBLOCK) {
      throw IoError("the folder of checkpoints '" + path_ +
                    "' is in use by another writer; one rank saves, and a second run needs a "
                    "folder of its own");
    }
    throw_errno("locking the folder of checkpoints '" + path_ + "'");
  }
  const Place place{files_, path_, folder_.get()};
  for (const char* name : kNames) {
    Steps(place, name).remove(place.temporary(name));
  }
  check_links(place);
}

// A process that was forked meanwhile has the descriptor, too, and would keep the lock.
Folder::~Folder() { files_.unlock(folder_.get()); }

void Folder::save(const Value& root, const SaveOptions& options) {
  replace({files_, path_, folder_.get()}, {"last.pt", "prev.pt", options.best ? "best.pt" : ""},
          [&](const Sink& sink) { write_pt(root, sink); });
}

Loaded load_newest(const std::string& path) {
  const std::string folder = without_slashes(path);
  // One folder for both files, whatever has its name by then.
  const UniqueFd descriptor =
      opened(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), folder);
  refuse_if_open_to_all(folder, descriptor.get());
  const OpenFolder in{descriptor.get(), folder};
  SoundDocument newest = read_if_sound(in, "last.pt");
  if (newest.document) {
    return {std::move(*newest.document), folder + "/last.pt", ""};
  }
  SoundDocument older = read_if_sound(in, "prev.pt");
  if (older.document) {
    return {std::move(*older.document), folder + "/prev.pt", newest.reason};
  }
  throw IoError("no checkpoint in '" + folder + "' can be used. " + newest.reason + ". " +
                older.reason);
}

Loaded load_file_or_newest(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return load_newest(path);
  }
  return {read_checkpoint(path), path, ""};
}

}  // namespace lockstep::checkpoint
