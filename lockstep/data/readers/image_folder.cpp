#include "lockstep/data/readers/image_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kExamples = 5;
constexpr int kMostThreads = 16;

using Skipped = std::map<std::string, SkippedFiles>;  // By reason.
using Inode = std::pair<dev_t, ino_t>;

void skip(Skipped& skipped, const std::string& reason, const std::string& path) {
  SkippedFiles& files = skipped[reason];
  files.reason = reason;
  ++files.count;
  if (files.examples.size() < kExamples) {
    files.examples.push_back(path);
  }
}

struct Entry {
  std::string name;
  bool is_folder = false;  // Or a link to one.
};

// Appends all of a folder; returns 0 or errno. Not std::filesystem: it makes a path of each entry,
// which takes longer than reading the folder.
int list_folder(const std::string& path, std::vector<Entry>& entries) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (!folder) {
    return errno;
  }
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) {
      return errno;
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") {
      continue;
    }
    bool is_folder = entry->d_type == DT_DIR;
    if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) {
      struct stat status{};
      // An open folder has a descriptor. NOLINTNEXTLINE(clang-analyzer-unix.StdCLibraryFunctions)
      const int found = ::fstatat(::dirfd(folder.get()), entry->d_name, &status, 0);
      is_folder = found == 0 && S_ISDIR(status.st_mode);
    }
    entries.push_back({std::string(name), is_folder});
  }
}

// Python's lower() as far as extensions go.
std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return text;
}

bool ends_with_one_of(const std::string& name, const std::vector<std::string>& extensions) {
  return std::ranges::any_of(extensions, [&](const auto& end) { return name.ends_with(end); });
}

std::string why_not(const std::string& lower_name) {
  for (const char* other : {".bmp", ".tif", ".tiff", ".webp"}) {
    if (lower_name.ends_with(other)) {
      return std::string("there is no decoder for ") + other;
    }
  }
  return "the name does not end like an image's";
}

// All of one class.
struct ClassFiles {
  std::vector<std::string> paths;
  Skipped skipped;
};

// Walks through one class folder.
class ClassWalk {
 public:
  ClassWalk(const std::string& root, const ImageFolderOptions& options)
      : root_(root), options_(options) {}

  ClassFiles files_of(const std::string& class_name) {
    visit(class_name);
    // By folder and then by name, as sorted(os.walk()) has them: not the order of whole paths.
    std::ranges::sort(folders_);
    ClassFiles files{.paths = {}, .skipped = std::move(skipped_)};
    for (auto& [folder, names] : folders_) {
      std::ranges::sort(names);
      for (const std::string& name : names) {
        files.paths.push_back(folder + "/" + name);
      }
    }
    return files;
  }

 private:
  void visit(const std::string& folder) {
    struct stat status{};
    if (::stat((root_ + "/" + folder).c_str(), &status) != 0) {
      skip(skipped_, std::system_category().message(errno), folder);
      return;
    }
    const Inode inode{status.st_dev, status.st_ino};
    if (std::ranges::find(above_, inode) != above_.end()) {
      skip(skipped_, "a link to a folder above it", folder);
      return;
    }
    above_.push_back(inode);
    read(folder);
    above_.pop_back();
  }

  void read(const std::string& folder) {
    std::vector<Entry> entries;
    const int error = list_folder(root_ + "/" + folder, entries);
    if (error != 0) {
      skip(skipped_, std::system_category().message(error), folder);
    }
    std::vector<std::string> names;
    std::vector<std::string> inner;
    for (Entry& entry : entries) {
      const std::string lower_name = lower(entry.name);
      if (entry.is_folder) {
        inner.push_back(folder + "/" + entry.name);
      } else if (ends_with_one_of(lower_name, options_.extensions)) {
        names.push_back(std::move(entry.name));
      } else {
        skip(skipped_, why_not(lower_name), folder + "/" + entry.name);
      }
    }
    folders_.emplace_back(folder, std::move(names));
    for (const std::string& next : inner) {
      visit(next);
    }
  }

  const std::string& root_;
  const ImageFolderOptions& options_;
  std::vector<std::pair<std::string, std::vector<std::string>>> folders_;
  std::vector<Inode> above_;
  Skipped skipped_;
};

std::vector<std::string> find_classes(const std::string& root, Skipped& skipped) {
  std::vector<Entry> entries;
  if (const int error = list_folder(root, entries); error != 0) {
    throw IoError("image folder '" + root + "': " + std::system_category().message(error));
  }
  std::vector<std::string> classes;
  for (Entry& entry : entries) {
    if (entry.is_folder) {
      classes.push_back(std::move(entry.name));
    } else {
      skip(skipped, "it is not in the folder of a class", entry.name);
    }
  }
  if (classes.empty()) {
    throw IoError("image folder '" + root +
                  "': there is no folder in it, expected one for each class");
  }
  std::ranges::sort(classes);
  return classes;
}

std::vector<ClassFiles> walk_classes(const std::string& root,
                                     const std::vector<std::string>& classes,
                                     const ImageFolderOptions& options) {
  std::vector<ClassFiles> found(classes.size());
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < classes.size(); i = next++) {
        found[i] = ClassWalk(root, options).files_of(classes[i]);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  const auto wanted = static_cast<std::size_t>(
      options.num_threads > 0
          ? options.num_threads
          : std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMostThreads));
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(wanted, classes.size()); ++i) {
      threads.emplace_back(work);
    }
    work();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
  return found;
}

void merge(Skipped& into, const Skipped& from) {
  for (const auto& [reason, files] : from) {
    SkippedFiles& all = into[reason];
    all.reason = reason;
    all.count += files.count;
    for (const auto& path : files.examples) {
      if (all.examples.size() < kExamples) {
        all.examples.push_back(path);
      }
    }
  }
}

void require_images(const ImageFolderIndex& index, const ImageFolderOptions& options) {
  std::vector<std::string> empty;
  for (std::size_t i = 0; i < index.classes.size(); ++i) {
    if (index.class_counts[i] == 0) {
      empty.push_back("'" + index.classes[i] + "'");
    }
  }
  if (!empty.empty() && !options.allow_empty) {
    const std::size_t more = empty.size() - std::min(empty.size(), kExamples);
    empty.resize(empty.size() - more);
    throw IoError("image folder '" + index.root + "': there is no image of the class " +
                  join(empty, ", ") + (more > 0 ? " and " + std::to_string(more) + " others" : "") +
                  ", expected files ending in " + join(options.extensions, ", ") +
                  "; remove the folder or set allow_empty");
  }
}

}  // namespace

ImageFolderIndex index_image_folder(const std::string& root, const ImageFolderOptions& options) {
  Skipped skipped;
  ImageFolderIndex index{.root = root, .classes = find_classes(root, skipped)};
  auto found = walk_classes(root, index.classes, options);
  for (std::size_t label = 0; label < found.size(); ++label) {
    index.class_counts.push_back(static_cast<std::int64_t>(found[label].paths.size()));
    for (std::string& path : found[label].paths) {
      index.images.push_back({std::move(path), static_cast<std::int64_t>(label)});
    }
    merge(skipped, found[label].skipped);
  }
  for (auto& [reason, files] : skipped) {
    index.skipped.push_back(std::move(files));
  }
  require_images(index, options);
  return index;
}

std::string ImageFolderIndex::summary() const {
  const auto [fewest, most] = std::ranges::minmax_element(class_counts);
  std::string text = "'" + root + "': " + std::to_string(images.size()) + " images in " +
                     std::to_string(classes.size()) + " classes";
  if (!class_counts.empty()) {
    text += ", " + std::to_string(*fewest) + " to " + std::to_string(*most) + " in a class";
  }
  for (const SkippedFiles& files : skipped) {
    text += "\nskipped " + std::to_string(files.count) + ": " + files.reason + " (" +
            join(files.examples, ", ") +
            (files.count > static_cast<std::int64_t>(files.examples.size()) ? ", ..." : "") + ")";
  }
  return text;
}

}  // namespace lockstep::data
