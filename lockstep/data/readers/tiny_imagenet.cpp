#include "lockstep/data/readers/tiny_imagenet.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/text.h"
#include "lockstep/data/readers/byte_reader.h"
#include "lockstep/data/readers/folder_listing.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kAnnotationFields = 6;  // A name, a class and a box.

std::string annotations_path(const std::string& root) { return root + "/val_annotations.txt"; }

[[noreturn]] void refuse_line(const std::string& name, std::int64_t line, const std::string& what) {
  throw IoError("annotations '" + name + "': line " + std::to_string(line) + ": " + what);
}

// For messages: what is in a field may be long.
std::string quoted_start(const std::string& field) {
  constexpr std::size_t kMost = 40;
  return "'" + printable_name(field.substr(0, kMost)) + (field.size() > kMost ? "...'" : "'");
}

ValAnnotation annotation_in(std::string_view text, const std::string& name, std::int64_t line) {
  const auto fields = split(text, '\t');
  if (fields.size() != kAnnotationFields) {
    refuse_line(name, line,
                std::to_string(fields.size()) + " fields, expected " +
                    std::to_string(kAnnotationFields) +
                    " with tabs between: the image's name, its class and a box of four numbers");
  }
  const std::string& file = fields[0];
  if (file.empty() || file == "." || file == ".." ||
      file.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
    refuse_line(name, line,
                "the image is " + quoted_start(file) + ", expected the name of a file in images/");
  }
  if (fields[1].empty()) {
    refuse_line(name, line, "the class is empty, expected the name of a folder in train/");
  }
  for (std::size_t i = 2; i < fields.size(); ++i) {
    if (!parse_int(trim(fields[i]))) {
      refuse_line(name, line,
                  "field " + std::to_string(i + 1) + " is " + quoted_start(fields[i]) +
                      ", expected a whole number of the box");
    }
  }
  return {.file = file, .class_name = fields[1], .line = line};
}

// The files in images/, by name.
std::set<std::string> image_names(const std::string& root) {
  std::vector<FolderEntry> entries;
  if (const int error = list_folder(root + "/images", entries); error != 0) {
    throw IoError("image folder '" + root + "/images': " + std::system_category().message(error) +
                  "; expected the images of val_annotations.txt there");
  }
  std::set<std::string> names;
  for (FolderEntry& entry : entries) {
    if (!entry.is_folder) {
      names.insert(std::move(entry.name));
    }
  }
  return names;
}

}  // namespace

std::vector<ValAnnotation> parse_val_annotations(std::string_view text, const std::string& name) {
  std::vector<ValAnnotation> annotations;
  std::unordered_map<std::string, std::int64_t> lines;  // Where a file is.
  for (std::int64_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (content.ends_with('\r')) {
      content.remove_suffix(1);
    }
    if (trim(content).empty()) {
      continue;
    }
    annotations.push_back(annotation_in(content, name, line));
    const auto [before, is_new] = lines.emplace(annotations.back().file, line);
    if (!is_new) {
      refuse_line(name, line,
                  quoted_start(before->first) + " is in line " + std::to_string(before->second) +
                      " already, expected each image once");
    }
  }
  if (annotations.empty()) {
    throw IoError("annotations '" + name + "': there is no line, expected one for each image");
  }
  return annotations;
}

bool is_tiny_imagenet_val(const std::string& root) {
  struct stat status{};
  return ::stat(annotations_path(root).c_str(), &status) == 0;
}

ImageFolderIndex index_tiny_imagenet_val(const std::string& root,
                                         const std::vector<std::string>& classes,
                                         const ImageFolderOptions& options) {
  ImageFolderIndex index{.root = root, .classes = classes};
  index.class_counts.resize(classes.size());
  std::map<std::string, std::int64_t> labels;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    labels.emplace(classes[i], static_cast<std::int64_t>(i));
  }
  const std::string text_path = annotations_path(root);
  SkippedByReason skipped;
  auto left = image_names(root);
  for (const auto& [file, class_name, line] :
       parse_val_annotations(read_text(text_path), text_path)) {
    const auto label = labels.find(class_name);
    if (label == labels.end()) {
      refuse_line(text_path, line,
                  "the class " + quoted_start(class_name) + " is none of the training part's " +
                      std::to_string(classes.size()) + ", expected one of them");
    }
    const std::string path = "images/" + file;
    if (left.erase(file) == 0) {
      skip_file(skipped, "it is in val_annotations.txt, but not in the folder", path);
    } else if (const auto why = why_no_image(file, options); !why.empty()) {
      skip_file(skipped, why, path);
    } else {
      index.images.push_back({path, label->second});
      ++index.class_counts[static_cast<std::size_t>(label->second)];
    }
  }
  for (const std::string& file : left) {
    const auto why = why_no_image(file, options);
    skip_file(skipped, why.empty() ? "it is not in val_annotations.txt" : why, "images/" + file);
  }
  for (auto& [reason, files] : skipped) {
    index.skipped.push_back(std::move(files));
  }
  std::ranges::sort(index.images, [](const FolderImage& a, const FolderImage& b) {
    return std::tie(a.label, a.path) < std::tie(b.label, b.path);
  });
  require_images(index, options, {});
  return index;
}

}  // namespace lockstep::data
