#include "lockstep/train/input/folder_layout.h"

#include <strings.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

struct Contents {
  std::vector<std::string> folders;  // In the order of their names.
  std::int64_t files = 0;
  bool is_read = true;
};

Contents contents_of(const std::string& folder) {
  Contents contents;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code unknown;
    if (entry->is_directory(unknown)) {
      contents.folders.push_back(entry->path().filename().string());
    } else {
      ++contents.files;
    }
  }
  contents.is_read = !error;
  std::ranges::sort(contents.folders);
  return contents;
}

// Takes the folder of this name out of the list. Small letters go first; empty if there is none.
std::string take(std::vector<std::string>& folders, const std::string& name) {
  auto found = std::ranges::find(folders, name);
  if (found == folders.end()) {
    found = std::ranges::find_if(folders, [&](const std::string& folder) {
      return ::strcasecmp(folder.c_str(), name.c_str()) == 0;
    });
  }
  if (found == folders.end()) {
    return "";
  }
  std::string folder = *found;
  folders.erase(found);
  return folder;
}

std::string take_first(std::vector<std::string>& folders, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    if (std::string folder = take(folders, name); !folder.empty()) {
      return folder;
    }
  }
  return "";
}

// An archive often unpacks into a folder of its own.
void refuse_data_below(const std::string& root, const std::vector<std::string>& folders) {
  for (const auto& folder : folders) {
    for (const char* file : {"data_batch_1.bin", "train.bin", "train-images-idx3-ubyte",
                             "train-images-idx3-ubyte.gz"}) {
      const fs::path below = fs::path(root) / folder;
      std::error_code unknown;
      if (fs::is_regular_file(below / file, unknown)) {
        throw UsageError("'" + root + "' has no data set in it, but '" + below.string() +
                         "' has; HINT: " + below.string());
      }
    }
  }
}

}  // namespace

FolderLayout folder_layout(const std::string& root) {
  const auto path = [&](const std::string& folder) {
    return folder.empty() ? "" : (fs::path(root) / folder).string();
  };
  auto folders = contents_of(root).folders;
  refuse_data_below(root, folders);
  std::erase_if(folders, [](const std::string& name) { return name.starts_with('.'); });
  FolderLayout layout;
  const std::string train = take(folders, "train");
  layout.validation = path(take_first(folders, {"val", "valid", "validation"}));
  layout.test = path(take(folders, "test"));
  const bool is_class = layout.validation.empty() && layout.test.empty() && !folders.empty() &&
                        contents_of(path(train)).folders.empty();
  if (train.empty() || is_class) {
    return {.train = root};
  }
  layout.train = path(train);
  if (layout.validation.empty()) {
    std::swap(layout.validation, layout.test);
  }
  for (const auto& folder : folders) {
    layout.warnings.push_back("'" + path(folder) + "' is not used: " +
                              (layout.validation.empty() ? "'" + layout.train + "' trains"
                                                         : "'" + layout.train + "' trains and '" +
                                                               layout.validation + "' validates"));
  }
  return layout;
}

void require_class_folders(const std::string& root) {
  const Contents contents = contents_of(root);
  if (!contents.is_read) {
    return;  // Whoever reads it says why it cannot.
  }
  const auto example = [&](const char* file) { return (fs::path(root) / file).string(); };
  if (contents.folders.empty()) {
    throw UsageError(
        "'" + root + "' has " +
        (contents.files == 0 ? "nothing"
                             : std::to_string(contents.files) + " files and no folder") +
        " in it, expected a folder of images for each class, or files of idx or CIFAR; HINT: " +
        example("cat/1.jpg") + ", " + example("dog/2.jpg"));
  }
  if (contents.folders.size() == 1) {
    const std::string only = example(contents.folders[0].c_str());
    const bool is_above = contents_of(only).folders.size() > 1;
    throw UsageError("'" + root + "' has one folder in it, '" + contents.folders[0] +
                     "', expected one for each of two or more classes; HINT: " +
                     (is_above ? only : example("cat/1.jpg") + ", " + example("dog/2.jpg")));
  }
}

}  // namespace lockstep::train
