// Tiny-ImageNet's validation part: all images lie in one folder, and a text file has their classes.
//
//   ROOT/images/val_0.JPEG ...
//   ROOT/val_annotations.txt: a line for each image with its name, its class and the box of the
//   object, left, top, right and bottom, with tabs between: "val_0.JPEG n03444034 0 32 44 62".
//
// The training part, train/CLASS/images/*.JPEG, is one for index_image_folder(). The test part has
// no classes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/readers/image_folder.h"

namespace lockstep::data {

struct ValAnnotation {
  std::string file;  // A name without folders; each is there once.
  std::string class_name;
  std::int64_t line = 0;  // From 1 on.
};

// Boxes are checked and left out; empty lines do not count. Throws IoError starting with `name` and
// naming the line.
std::vector<ValAnnotation> parse_val_annotations(std::string_view text, const std::string& name);

// Whether the folder has a val_annotations.txt.
bool is_tiny_imagenet_val(const std::string& root);

// `classes` are those of the training part. The index is the one that a folder for each class would
// give: by class, then by name. An image without a line and a line without its image are skipped.
// Throws IoError if the text or the folder cannot be read, a line is wrong, its class is none of
// the training part's, or a class is empty.
ImageFolderIndex index_tiny_imagenet_val(const std::string& root,
                                         const std::vector<std::string>& classes,
                                         const ImageFolderOptions& options = {});

}  // namespace lockstep::data
