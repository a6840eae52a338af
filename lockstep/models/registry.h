// Networks by name, as torchvision.models.get_model() has them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/models/network.h"

namespace lockstep::models {

// What is not given is as in ModelInfo.
struct ModelOptions {
  std::optional<std::int64_t> num_classes = {};
  // {channels, height, width} of images, or {features} of rows of a table. Networks without
  // convolutions flatten images themselves.
  std::vector<std::int64_t> input_size = {};
};

struct ModelInfo {
  std::string name;
  std::string head;  // The last layer, such as "fc": what another number of classes changes.
  std::int64_t num_classes = 1000;
  std::vector<std::int64_t> input_size = {3, 224, 224};
};

// Sorted by name.
const std::vector<ModelInfo>& list_models();

// Throws UsageError with all names, and the most similar one, if there is no such network.
const ModelInfo& model_info(const std::string& name);

// Draws from the global generator, as the network's own function does. Throws UsageError if there
// is no such network, or it cannot have these sizes.
std::shared_ptr<Network> get_model(const std::string& name, const ModelOptions& options = {});

}  // namespace lockstep::models
