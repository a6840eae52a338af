// The rows of `lockstep bench loader`, as ours does them; benchmarks/peers/loader.py has PyTorch's.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/data/datasets/image_folder_dataset.h"
#include "lockstep/data/datasets/tensor_dataset.h"

namespace lockstep::bench {

// Folders of JPEGs with a folder for each class; "" for none.
struct LoaderData {
  std::string photos;
  std::string files;
  std::string large;
  double shortest_turn = 0.5;  // Seconds.
};

class LoaderRows {
 public:
  explicit LoaderRows(LoaderData folders);

  // The seconds that a row took, its samples, and a sum in which all who do it must agree. What
  // takes less than the shortest turn is repeated for that long, without counting the first time,
  // and the mean is given. -1 workers means kAuto. Throws Error if there is no such row.
  nlohmann::json carry_out(const std::string& row, int workers);

 private:
  using Photos = std::shared_ptr<const data::ImageFolder>;

  nlohmann::json once(const std::string& row, int workers);
  nlohmann::json memory(int workers);
  nlohmann::json decode() const;
  nlohmann::json entropy() const;
  nlohmann::json index() const;
  nlohmann::json first(int workers);
  // A consumer at 7,000 images in a second, for some epochs; "wait" is how many of its seconds it
  // waited for data.
  static nlohmann::json paced(int workers, const Photos& set);

  // They stay from turn to turn, as PyTorch's do.
  const Photos& photo_set(const std::string& row);
  const Photos& filled_cache();

  LoaderData data_;
  std::shared_ptr<data::TensorDataset> memory_;
  std::map<std::string, Photos> sets_;
};

}  // namespace lockstep::bench
