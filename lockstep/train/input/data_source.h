// Finds out what DATA is and opens it: a part to train on, a part to validate with, and the part of
// the final evaluation, if it has one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/datasets/dataset.h"
#include "lockstep/data/datasets/image_folder_dataset.h"
#include "lockstep/train/config/config.h"

namespace lockstep::train {

// A part that is read from image files.
struct ImagePart {
  std::string name;  // For people: "training", "validation" or "test".
  std::shared_ptr<const data::ImageFolder> images;
  bool is_scored = true;  // Not so the part that trains.
};

struct DataSource {
  std::string name;         // Short, for the folder of the run: "fashion-mnist".
  std::string description;  // For people: what and from where.
  std::string note;         // Behind it where the data are described: whether a table has a header.
  std::shared_ptr<const data::Dataset> train;
  std::shared_ptr<const data::Dataset> validation;
  std::shared_ptr<const data::Dataset> test;  // Scored once, behind the last epoch; null: none.
  std::vector<std::int64_t> input;  // The shape of one sample: [1, 28, 28], or [8] in a table.
  std::int64_t num_classes = 0;
  std::vector<std::string> class_names;  // Empty if they have none.
  std::vector<double> mean;              // What samples were normalised with; may be empty.
  std::vector<double> std;
  bool is_split_by_seed = false;  // The validation part was drawn from the training data.
  std::string index;       // Equal where the samples are: sizes and a checksum of labels or paths.
  std::string test_index;  // The same of `test`, on which nothing that is learned depends.
  // The parts that can tell what was skipped or bad; empty if nothing is read from image files.
  std::vector<ImagePart> folders;
  std::vector<std::string> warnings;  // What of the data is not used, and why.

  [[nodiscard]] bool is_table() const { return input.size() == 1; }
};

// By config.data. Where there is no part for validation, a part of the training data, drawn by the
// seed, is set aside. Throws UsageError with the nearest name that exists if there is no such data,
// and IoError if it is damaged.
DataSource open_data(const TrainConfig& config);

}  // namespace lockstep::train
