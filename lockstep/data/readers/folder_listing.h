// What lies in the folders of a data set, and what of it is no image, by its name.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/data/readers/image_folder.h"

namespace lockstep::data {

struct FolderEntry {
  std::string name;
  bool is_folder = false;  // Or a link to one.
};

// Appends all of a folder; returns 0 or errno.
int list_folder(const std::string& path, std::vector<FolderEntry>& entries);

using SkippedByReason = std::map<std::string, SkippedFiles>;
void skip_file(SkippedByReason& skipped, const std::string& reason, const std::string& path);
void merge_skipped(SkippedByReason& into, const SkippedByReason& from);

// Why a file of this name is not in an index; "" if it is.
std::string why_no_image(const std::string& name, const ImageFolderOptions& options);

// `why` has what is known about each class that is empty, "" if nothing is; or is empty. Throws
// IoError naming the classes without an image, unless they are allowed.
void require_images(const ImageFolderIndex& index, const ImageFolderOptions& options,
                    const std::vector<std::string>& why);

}  // namespace lockstep::data
