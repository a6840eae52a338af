#include "lockstep/train/session/choose_network.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest.h"
#include "lockstep/base/text/text.h"
#include "lockstep/models/registry.h"

namespace lockstep::train {

std::vector<std::string> network_names(const Networks& networks) {
  std::vector<std::string> names;
  for (const auto& [name, make] : networks) {
    names.push_back(name);
  }
  for (const auto& info : models::list_models()) {
    names.push_back(info.name);
  }
  return names;
}

std::string model_for(const TrainConfig& config, const DataSource& source) {
  if (!config.model.empty()) {
    return config.model;
  }
  const std::vector<std::int64_t> small{1, 28, 28};
  return source.is_table() ? "mlp" : source.input == small ? "convnet" : "resnet18";
}

std::shared_ptr<models::Network> make_network(const std::string& name, const DataSource& source,
                                              const Networks& networks) {
  const models::ModelOptions options{source.num_classes, source.input};
  if (const auto own = networks.find(name); own != networks.end()) {
    return own->second(options);
  }
  const auto names = network_names(networks);
  if (std::ranges::find(names, name) == names.end()) {
    const auto nearest = nearest_name(name, names);
    throw UsageError("--model: there is no network '" + name + "', expected one of " +
                     join(names, ", ") + (nearest ? "; HINT: --model " + *nearest : ""));
  }
  return models::get_model(name, options);
}

}  // namespace lockstep::train
