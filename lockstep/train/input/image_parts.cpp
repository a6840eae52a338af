#include "lockstep/train/input/image_parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/text.h"
#include "lockstep/data/readers/bad_files.h"
#include "lockstep/data/readers/tiny_imagenet.h"

namespace lockstep::train {
namespace {

// In a part with fewer files one may be bad.
std::int64_t one_percent(const data::ImageFolderIndex& index) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(index.images.size()) / 100);
}

data::CachePlace cache_place(const std::string& name) {
  if (name.empty()) {
    return data::CachePlace::kNone;
  }
  return name == "disk" ? data::CachePlace::kDisk : data::CachePlace::kRam;
}

void require_classes_of(const data::ImageFolderIndex& train, const data::ImageFolderIndex& other) {
  for (const auto& name : other.classes) {
    if (std::ranges::find(train.classes, name) == train.classes.end()) {
      throw IoError("'" + other.root + "' has the class '" + name + "', which is missing in '" +
                    train.root + "'; expected the same folders in both");
    }
  }
  if (train.classes.size() != other.classes.size()) {
    throw IoError("'" + train.root + "' has " +
                  counted(static_cast<std::int64_t>(train.classes.size()), "class") + " and '" +
                  other.root + "' has " + std::to_string(other.classes.size()) +
                  ", expected the same folders in both");
  }
}

}  // namespace

data::ImageReading train_reading(const TrainConfig& config, const data::ImageFolderIndex& index) {
  auto reading = evaluation_reading(config, index);
  reading.marks_replacements = false;
  reading.decoding.fast = config.decode == "fast";
  return reading;
}

data::ImageReading evaluation_reading(const TrainConfig& config,
                                      const data::ImageFolderIndex& index) {
  data::ImageReading reading;
  reading.cache = cache_place(config.cache);
  reading.cache_folder = config.cache_dir;
  reading.cache_shorter_side = config.cache_shorter_side;
  reading.max_bad = config.max_bad < 0 ? one_percent(index) : config.max_bad;
  reading.marks_replacements = true;
  return reading;
}

data::Compose train_transform(const TrainConfig& config) {
  std::vector<data::Transform> steps{
      data::RandomResizedCrop{.size = {config.input_size, config.input_size}},
      data::RandomHorizontalFlip{.p = config.hflip < 0 ? 0.5 : config.hflip}, data::ToTensor{},
      data::Normalize{data::kImageNetMean, data::kImageNetStd}};
  if (config.reprob > 0) {
    steps.emplace_back(data::RandomErasing{.p = config.reprob});
  }
  return data::Compose(std::move(steps));
}

data::Compose validation_transform(const TrainConfig& config) {
  return data::Compose({data::Resize{.size = config.input_size * 8 / 7},
                        data::CenterCrop{{config.input_size, config.input_size}}, data::ToTensor{},
                        data::Normalize{data::kImageNetMean, data::kImageNetStd}});
}

std::function<bool(std::int64_t)> one_of(const std::vector<std::int64_t>& indices,
                                         std::size_t size) {
  std::vector<bool> is_one(size);
  for (const auto index : indices) {
    is_one[static_cast<std::size_t>(index)] = true;
  }
  return [is_one = std::move(is_one)](std::int64_t index) {
    return is_one[static_cast<std::size_t>(index)];
  };
}

data::ImageFolderIndex index_part(const std::string& root, const data::ImageFolderIndex& train) {
  if (data::is_tiny_imagenet_val(root)) {
    return data::index_tiny_imagenet_val(root, train.classes);
  }
  auto index = data::index_image_folder(root);
  require_classes_of(train, index);
  return index;
}

std::optional<data::ImageFolderIndex> index_test_part(const std::string& test,
                                                      const data::ImageFolderIndex& train,
                                                      std::vector<std::string>& warnings) {
  if (test.empty()) {
    return std::nullopt;
  }
  try {
    return index_part(test, train);
  } catch (const IoError& error) {
    warnings.push_back("'" + test + "' is not scored: " + error.what());
    return std::nullopt;
  }
}

void require_fitting_flags(const TrainConfig& config, const DataSource& source) {
  const bool has_files = !source.folders.empty();
  const auto refuse = [&](const std::string& flag, const std::string& expected) {
    throw UsageError(flag + " is for " + expected + ", but " + source.description + " is " +
                     (has_files           ? "a folder of image files"
                      : source.is_table() ? "a table"
                                          : "read into memory as a whole") +
                     "; HINT: leave " + flag + " out");
  };
  if (!has_files && !config.cache.empty()) {
    refuse("--cache", "a folder of image files");
  }
  if (!has_files && config.max_bad >= 0) {
    refuse("--max-bad", "a folder of image files");
  }
  if (!has_files && config.decode != "exact") {
    refuse("--decode", "a folder of image files");
  }
  if (!has_files && config.input_size != TrainConfig{}.input_size) {
    refuse("--input-size", "a folder of image files");
  }
  if (!source.is_table() && !config.label.empty()) {
    refuse("--label", "a table");
  }
  if (has_files && config.crop_padding > 0) {
    refuse("--crop-padding", "images of one size, such as CIFAR's");
  }
  if (source.is_table()) {
    for (const auto& [flag, value] : {std::pair("--hflip", config.hflip),
                                      {"--reprob", config.reprob},
                                      {"--mixup", config.mixup},
                                      {"--cutmix", config.cutmix}}) {
      if (value > 0) {
        refuse(flag, "images");
      }
    }
  }
  if (source.is_table() && config.crop_padding > 0) {
    refuse("--crop-padding", "images of one size, such as CIFAR's");
  }
}

std::string describe_data(const DataSource& source) {
  const auto number = [](const auto& part) { return std::to_string(part->size()); };
  const std::string parts = source.test ? ", " + number(source.validation) + " validation and " +
                                              number(source.test) + " test "
                                        : " and " + number(source.validation) + " validation ";
  std::vector<std::string> lines{
      number(source.train) + " training" + parts + (source.is_table() ? "rows" : "images") +
      " in " + counted(source.num_classes, "class") + " from " + source.description + source.note};
  std::set<std::string> roots;
  for (const auto& part : source.folders) {
    if (roots.insert(part.images->index().root).second) {  // Two parts may be of one folder.
      lines.push_back(part.images->index().summary());
    }
  }
  return join(lines, "\n");
}

void require_few_bad_files(const Group& group, const DataSource& source) {
  for (const auto& part : source.folders) {
    const auto& met = part.images->bad_files();
    data::BadFiles all(met.max_bad());
    for (const auto& packed : group.all_gather_bytes(met.packed())) {
      all.merge(packed);
    }
    all.require_few();
  }
}

ImageNews image_news(const Group& group, const DataSource& source) {
  std::map<std::string, data::BadFiles> bad;
  std::set<std::string> with_replaced;  // Folders of which a part that trains met bad files.
  std::set<std::string> caches;
  std::vector<std::string> not_scored;
  for (const auto& part : source.folders) {
    auto& all = bad[part.images->index().root];
    data::BadFiles of_part;
    for (const auto& packed : group.all_gather_bytes(part.images->bad_files().packed())) {
      all.merge(packed);
      of_part.merge(packed);
    }
    if (of_part.count() > 0 && !part.is_scored) {
      with_replaced.insert(part.images->index().root);
    } else if (of_part.count() > 0) {
      not_scored.push_back("scores of the " + part.name + " part are without " +
                           counted(of_part.count(), "file"));
    }
    caches.insert(part.images->cache_summary());
  }
  ImageNews news;
  for (const auto& [root, files] : bad) {
    news.bad_files = news.bad_files.value_or(0) + files.count();
    if (files.count() > 0) {
      const auto listed = files.listed();
      news.bad_file_list.insert(news.bad_file_list.end(), listed.begin(), listed.end());
      const auto summary = with_replaced.contains(root)
                               ? files.summary()
                               : files.summary(" in '" + printable_name(root) + "'");
      const auto lines = lockstep::split(summary, '\n');
      news.lines.insert(news.lines.end(), lines.begin(), lines.end());
    }
  }
  news.lines.insert(news.lines.end(), not_scored.begin(), not_scored.end());
  caches.erase("");
  news.lines.insert(news.lines.end(), caches.begin(), caches.end());
  return news;
}

}  // namespace lockstep::train
