#include "lockstep/train/input/folder_layout.h"

#include <strings.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/text.h"

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

// Takes the folder of this name out of the list, one in other letters if there is none; empty if
// there is none of those either.
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
    const fs::path below = fs::path(root) / folder;
    const auto has = [&](const char* file) {
      std::error_code unknown;
      return fs::is_regular_file(below / file, unknown);
    };
    if (has("data_batch_1.bin") || (has("train.bin") && has("test.bin")) ||
        has("train-images-idx3-ubyte") || has("train-images-idx3-ubyte.gz")) {
      throw UsageError("'" + root + "' has no data set in it, but '" + below.string() +
                       "' has; HINT: " + below.string());
    }
  }
}

// Trains are a class beside other vehicles. A part whose images are in no folder is none.
bool is_class(const Contents& train, const std::vector<std::string>& others) {
  return train.is_read && train.folders.empty() && train.files > 0 && others.size() > 1 &&
         std::ranges::none_of(others, [](const std::string& name) {
           return ::strncasecmp(name.c_str(), "test", 4) == 0 ||
                  ::strncasecmp(name.c_str(), "val", 3) == 0;
         });
}

std::string not_used(const FolderLayout& layout, const std::string& root,
                     std::vector<std::string> folders) {
  constexpr std::size_t kMost = 5;
  const std::size_t more = folders.size() - std::min(folders.size(), kMost);
  folders.resize(folders.size() - more);
  for (auto& folder : folders) {
    folder = "'" + printable_name((fs::path(root) / folder).string()) + "'";
  }
  return "not used: " + join(folders, ", ") +
         (more > 0 ? " and " + std::to_string(more) + " others" : "") + "; '" + layout.train +
         "' trains" +
         (layout.validation.empty() ? "" : " and '" + layout.validation + "' validates");
}

}  // namespace

FolderLayout folder_layout(const std::string& root) {
  const auto path = [&](const std::string& folder) {
    return folder.empty() ? "" : (fs::path(root) / folder).string();
  };
  auto folders = contents_of(root).folders;
  std::erase_if(folders, [](const std::string& name) { return name.starts_with('.'); });
  FolderLayout layout;
  layout.train = path(take_first(folders, {"train", "training"}));
  layout.validation = path(take_first(folders, {"val", "valid", "validation"}));
  layout.test = path(take_first(folders, {"test", "testing"}));
  const std::string& part = layout.validation.empty() ? layout.test : layout.validation;
  if (layout.train.empty() && folders.empty() && !part.empty()) {
    throw UsageError("'" + root + "' has '" + part +
                     "' and no part that trains; HINT: " + path("train/cat/1.jpg"));
  }
  if (layout.train.empty()) {
    refuse_data_below(root, folders);
    return {.train = root};
  }
  if (part.empty() && is_class(contents_of(layout.train), folders)) {
    return {.train = root};
  }
  if (layout.validation.empty()) {
    std::swap(layout.validation, layout.test);
  }
  if (!folders.empty()) {
    layout.warnings.push_back(not_used(layout, root, folders));
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
        (contents.files == 0 ? "nothing" : counted(contents.files, "file") + " and no folder") +
        " in it, expected a folder of images for each class, or files of idx or CIFAR; HINT: " +
        example("cat/1.jpg") + ", " + example("dog/2.jpg"));
  }
  if (contents.folders.size() == 1) {
    const std::string only = example(contents.folders[0].c_str());
    const bool has_classes = contents_of(only).folders.size() > 1;
    throw UsageError("'" + root + "' has one folder in it, '" + contents.folders[0] +
                     "', expected one for each of two or more classes; HINT: " +
                     (has_classes ? only : example("cat/1.jpg") + ", " + example("dog/2.jpg")));
  }
}

}  // namespace lockstep::train
