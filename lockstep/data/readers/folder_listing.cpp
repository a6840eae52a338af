#include "lockstep/data/readers/folder_listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/text.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kSkippedExamples = 5;

// Python's lower() as far as extensions go.
std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return text;
}

}  // namespace

// Not std::filesystem: it makes a path of each entry, which takes longer than reading the folder.
int list_folder(const std::string& path, std::vector<FolderEntry>& entries) {
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

void skip_file(SkippedByReason& skipped, const std::string& reason, const std::string& path) {
  SkippedFiles& files = skipped[reason];
  files.reason = reason;
  ++files.count;
  if (files.examples.size() < kSkippedExamples) {
    files.examples.push_back(printable_name(path));
  }
}

void merge_skipped(SkippedByReason& into, const SkippedByReason& from) {
  for (const auto& [reason, files] : from) {
    SkippedFiles& all = into[reason];
    all.reason = reason;
    all.count += files.count;
    for (const auto& path : files.examples) {
      if (all.examples.size() < kSkippedExamples) {
        all.examples.push_back(path);
      }
    }
  }
}

std::string why_no_image(const std::string& name, const ImageFolderOptions& options) {
  const std::string lower_name = lower(name);
  const auto is_end = [&](const std::string& end) { return lower_name.ends_with(end); };
  if (std::ranges::any_of(options.extensions, is_end)) {
    return "";
  }
  for (const char* other : {".bmp", ".tif", ".tiff", ".webp"}) {
    if (is_end(other)) {
      return std::string("there is no decoder for ") + other;
    }
  }
  return "the name does not end like an image's";
}

void require_images(const ImageFolderIndex& index, const ImageFolderOptions& options,
                    const std::vector<std::string>& why) {
  std::vector<std::string> empty;
  for (std::size_t i = 0; i < index.classes.size(); ++i) {
    if (index.class_counts[i] == 0) {
      const bool is_known = i < why.size() && !why[i].empty();
      empty.push_back("'" + printable_name(index.classes[i]) + "'" +
                      (is_known ? " (" + why[i] + ")" : ""));
    }
  }
  if (!empty.empty() && !options.allow_empty) {
    const std::size_t more = empty.size() - std::min(empty.size(), kSkippedExamples);
    empty.resize(empty.size() - more);
    throw IoError("image folder '" + index.root + "': there is no image of the class " +
                  join(empty, ", ") + (more > 0 ? " and " + std::to_string(more) + " others" : "") +
                  ", expected files ending in " + join(options.extensions, ", ") +
                  "; remove the folder, or put an image into it");
  }
}

}  // namespace lockstep::data
