// Which images a folder has, and of which class: the rules of torchvision's ImageFolder.
//
// Each folder in the root is a class; classes are numbered in the order of their names. All files
// below it, at any depth, whose name ends like an image's belong to it, ordered by folder and name.
// Links are followed. No file is opened.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

struct FolderImage {
  std::string path;  // From the root, which is not part of it.
  std::int64_t label = 0;
};

// Files that are not in the index, or folders without an image, for one reason.
struct SkippedFiles {
  std::string reason;
  std::int64_t count = 0;
  std::vector<std::string> examples;  // The first few paths from the root.
};

struct ImageFolderIndex {
  std::string root;
  std::vector<std::string> classes;
  std::vector<std::int64_t> class_counts;  // Images of each class.
  std::vector<FolderImage> images;
  std::vector<SkippedFiles> skipped;

  // What was found and what was skipped, a line each; for people.
  [[nodiscard]] std::string summary() const;
};

struct ImageFolderOptions {
  // In lower case. bmp, tif, tiff and webp, which torchvision takes too, have no decoder here.
  std::vector<std::string> extensions = {".jpg", ".jpeg", ".png", ".ppm", ".pgm"};
  bool allow_empty = false;  // Classes without an image are an error otherwise.
  int num_threads = 0;       // 0: as many as there are cores, at most 16.
};

// Throws IoError if the root cannot be read or has no class folder, or naming classes that are
// empty, and why. A folder further down that cannot be read or has no image is skipped.
ImageFolderIndex index_image_folder(const std::string& root,
                                    const ImageFolderOptions& options = {});

}  // namespace lockstep::data
