#include "lockstep/data/readers/image_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/run_on_threads.h"
#include "lockstep/base/text/text.h"
#include "lockstep/data/readers/folder_listing.h"

namespace lockstep::data {
namespace {

constexpr int kMostThreads = 16;
constexpr const char* kNoImageInFolder = "there is no image in the folder";

using Inode = std::pair<dev_t, ino_t>;

// What is known about a class without images: each reason with a file or folder that it is of.
std::string reasons_of(const SkippedByReason& skipped) {
  std::vector<std::string> reasons;
  for (const auto& [reason, files] : skipped) {
    reasons.push_back(reason + ": " + files.examples.front());
  }
  return join(reasons, "; ");
}

// All of one class.
struct ClassFiles {
  std::vector<std::string> paths;
  SkippedByReason skipped;
  std::string why_empty;  // "" if it is not, or nothing is known.
};

// Walks through one class folder.
class ClassWalk {
 public:
  ClassWalk(const std::string& root, const ImageFolderOptions& options)
      : root_(root), options_(options) {}

  ClassFiles files_of(const std::string& class_name) {
    const Found found = visit(class_name);
    ClassFiles files;
    if (found != Found::kImages) {
      files.why_empty = reasons_of(skipped_);
    }
    if (found == Found::kNothing) {
      skip_file(skipped_, kNoImageInFolder, class_name);
    }
    files.skipped = std::move(skipped_);
    // By folder and then by name, as sorted(os.walk()) has them: not the order of whole paths.
    std::ranges::sort(folders_);
    for (auto& [folder, names] : folders_) {
      std::ranges::sort(names);
      for (const std::string& name : names) {
        files.paths.push_back(folder + "/" + name);
      }
    }
    return files;
  }

 private:
  // kSkipped: there is no image, and the reason is told already.
  enum class Found { kImages, kNothing, kSkipped };

  Found visit(const std::string& folder) {
    struct stat status{};
    if (::stat((root_ + "/" + folder).c_str(), &status) != 0) {
      skip_file(skipped_, std::system_category().message(errno), folder);
      return Found::kSkipped;
    }
    const Inode inode{status.st_dev, status.st_ino};
    if (std::ranges::find(above_, inode) != above_.end()) {
      skip_file(skipped_, "a link to a folder above it", folder);
      return Found::kSkipped;
    }
    above_.push_back(inode);
    const Found found = read(folder);
    above_.pop_back();
    return found;
  }

  Found read(const std::string& folder) {
    std::vector<FolderEntry> entries;
    const int error = list_folder(root_ + "/" + folder, entries);
    if (error != 0) {
      skip_file(skipped_, std::system_category().message(error), folder);
    }
    std::vector<std::string> names;
    std::vector<std::string> inner;
    for (FolderEntry& entry : entries) {
      if (entry.is_folder) {
        inner.push_back(folder + "/" + entry.name);
      } else if (const auto why = why_no_image(entry.name, options_); why.empty()) {
        names.push_back(std::move(entry.name));
      } else {
        skip_file(skipped_, why, folder + "/" + entry.name);
      }
    }
    bool has_images = !names.empty();
    folders_.emplace_back(folder, std::move(names));
    std::vector<std::string> without;
    for (const std::string& next : inner) {
      const Found found = visit(next);
      has_images = has_images || found == Found::kImages;
      if (found == Found::kNothing) {
        without.push_back(next);
      }
    }
    if (!has_images) {  // One line for all of it, by the caller.
      return error != 0 ? Found::kSkipped : Found::kNothing;
    }
    for (const std::string& next : without) {
      skip_file(skipped_, kNoImageInFolder, next);
    }
    return Found::kImages;
  }

  const std::string& root_;
  const ImageFolderOptions& options_;
  std::vector<std::pair<std::string, std::vector<std::string>>> folders_;
  std::vector<Inode> above_;
  SkippedByReason skipped_;
};

std::vector<std::string> find_classes(const std::string& root, SkippedByReason& skipped) {
  std::vector<FolderEntry> entries;
  if (const int error = list_folder(root, entries); error != 0) {
    throw IoError("image folder '" + root + "': " + std::system_category().message(error));
  }
  std::vector<std::string> classes;
  for (FolderEntry& entry : entries) {
    if (entry.is_folder) {
      classes.push_back(std::move(entry.name));
    } else {
      skip_file(skipped, "it is not in the folder of a class", entry.name);
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
  const auto wanted = static_cast<std::size_t>(
      options.num_threads > 0
          ? options.num_threads
          : std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMostThreads));
  run_on_threads(std::min(wanted, classes.size()), [&] {
    for (std::size_t i = next++; i < classes.size(); i = next++) {
      found[i] = ClassWalk(root, options).files_of(classes[i]);
    }
  });
  return found;
}

}  // namespace

ImageFolderIndex index_image_folder(const std::string& root, const ImageFolderOptions& options) {
  SkippedByReason skipped;
  ImageFolderIndex index{.root = root, .classes = find_classes(root, skipped)};
  std::vector<std::string> why_empty;
  auto found = walk_classes(root, index.classes, options);
  for (std::size_t label = 0; label < found.size(); ++label) {
    index.class_counts.push_back(static_cast<std::int64_t>(found[label].paths.size()));
    for (std::string& path : found[label].paths) {
      index.images.push_back({std::move(path), static_cast<std::int64_t>(label)});
    }
    merge_skipped(skipped, found[label].skipped);
    why_empty.push_back(std::move(found[label].why_empty));
  }
  for (auto& [reason, files] : skipped) {
    index.skipped.push_back(std::move(files));
  }
  require_images(index, options, why_empty);
  return index;
}

std::string ImageFolderIndex::summary() const {
  const auto [fewest, most] = std::ranges::minmax_element(class_counts);
  std::string text = "'" + root +
                     "': " + counted(static_cast<std::int64_t>(images.size()), "image") + " in " +
                     counted(static_cast<std::int64_t>(classes.size()), "class");
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
