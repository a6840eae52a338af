#include "lockstep/models/mlp.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/models/require.h"

namespace lockstep::models {

torch::nn::Sequential mlp(const MlpOptions& options) {
  require_positive("mlp", "in_features", options.in_features);
  require_positive("mlp", "num_classes", options.num_classes);
  torch::nn::Sequential net;
  std::int64_t features = options.in_features;
  for (const std::int64_t width : options.hidden) {
    require_positive("mlp", "a size in hidden", width);
    net->push_back(torch::nn::Linear(features, width));
    net->push_back(torch::nn::ReLU());
    features = width;
  }
  net->push_back(torch::nn::Linear(features, options.num_classes));
  return net;
}

}  // namespace lockstep::models
