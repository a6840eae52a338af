#include "lockstep/models/registry.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest.h"
#include "lockstep/base/text/text.h"
#include "lockstep/models/convnet.h"
#include "lockstep/models/mlp.h"
#include "lockstep/models/mobilenet_v2.h"
#include "lockstep/models/require.h"
#include "lockstep/models/resnet.h"
#include "lockstep/models/toy.h"
#include "lockstep/models/vgg.h"

namespace lockstep::models {
namespace {

// With all its sizes.
struct Wanted {
  const std::string& name;
  std::int64_t num_classes;
  std::vector<std::int64_t> input_size;
};
using Make = std::function<std::shared_ptr<Network>(const Wanted&)>;

std::string text_of(const std::vector<std::int64_t>& sizes) {
  std::vector<std::string> parts;
  for (const std::int64_t size : sizes) {
    parts.push_back(std::to_string(size));
  }
  return "{" + join(parts, ", ") + "}";
}

void require_images(const Wanted& wanted) {
  if (wanted.input_size.size() != 3) {
    throw UsageError(wanted.name + ": input_size is " + text_of(wanted.input_size) +
                     ", expected {channels, height, width}; for rows of a table take mlp");
  }
}

std::int64_t features_of(const Wanted& wanted) {
  const auto& sizes = wanted.input_size;
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

template <class Net, class Options>
Make images(std::shared_ptr<Net> (*make)(const Options&), std::int64_t least_pixels = 1) {
  return [make, least_pixels](const Wanted& wanted) {
    require_images(wanted);
    require_at_least(least_pixels, wanted.name, {wanted.input_size[1], wanted.input_size[2]});
    Options options;
    options.num_classes = wanted.num_classes;
    options.in_channels = wanted.input_size[0];
    return std::make_shared<Network>(make(options));
  };
}

std::shared_ptr<Network> make_convnet(const Wanted& wanted) {
  require_images(wanted);
  auto net = convnet({.num_classes = wanted.num_classes,
                      .in_channels = wanted.input_size[0],
                      .height = wanted.input_size[1],
                      .width = wanted.input_size[2]});
  return std::make_shared<Network>(net.ptr());
}

// A network of rows.
template <class Net>
std::shared_ptr<Network> flattening(const std::shared_ptr<Net>& net) {
  return std::make_shared<Network>(net, [](torch::nn::Module& body, const at::Tensor& input) {
    return body.as<Net>()->forward(input.flatten(1));
  });
}

std::shared_ptr<Network> make_mlp(const Wanted& wanted) {
  return flattening(
      mlp({.in_features = features_of(wanted), .num_classes = wanted.num_classes}).ptr());
}

std::shared_ptr<Network> make_toy(const Wanted& wanted) {
  return flattening(toy({.in_features = features_of(wanted), .num_classes = wanted.num_classes}));
}

struct Model {
  ModelInfo info;
  Make make;
};

const std::vector<Model>& all_models() {
  static const std::vector<Model> models{
      {{"convnet", "9", 10, {1, 28, 28}}, make_convnet},
      {{"mlp", "6", 10, {784}}, make_mlp},
      {{"mobilenet_v2", "classifier.1"}, images(mobilenet_v2)},
      {{"resnet101", "fc"}, images(resnet101)},
      {{"resnet152", "fc"}, images(resnet152)},
      {{"resnet18", "fc"}, images(resnet18)},
      {{"resnet34", "fc"}, images(resnet34)},
      {{"resnet50", "fc"}, images(resnet50)},
      {{"toy", "net2", 5, {10}}, make_toy},
      {{"vgg11_bn", "classifier.6"}, images(vgg11_bn, 32)},
      {{"vgg13_bn", "classifier.6"}, images(vgg13_bn, 32)},
      {{"vgg16_bn", "classifier.6"}, images(vgg16_bn, 32)},
      {{"vgg19_bn", "classifier.6"}, images(vgg19_bn, 32)},
  };
  return models;
}

const Model& find(const std::string& name) {
  const auto& models = all_models();
  const auto found =
      std::ranges::find(models, name, [](const Model& model) { return model.info.name; });
  if (found != models.end()) {
    return *found;
  }
  std::vector<std::string> names;
  for (const auto& model : models) {
    names.push_back(model.info.name);
  }
  const auto nearest = *std::ranges::min_element(
      names, {}, [&](const std::string& known) { return edit_distance(name, known); });
  throw UsageError("there is no network '" + name + "'; did you mean '" + nearest +
                   "'? There are " + join(names, ", "));
}

}  // namespace

const std::vector<ModelInfo>& list_models() {
  static const std::vector<ModelInfo> infos = [] {
    std::vector<ModelInfo> all;
    for (const auto& model : all_models()) {
      all.push_back(model.info);
    }
    return all;
  }();
  return infos;
}

const ModelInfo& model_info(const std::string& name) { return find(name).info; }

std::shared_ptr<Network> get_model(const std::string& name, const ModelOptions& options) {
  const Model& model = find(name);
  const Wanted wanted{
      .name = model.info.name,
      .num_classes = options.num_classes.value_or(model.info.num_classes),
      .input_size = options.input_size.empty() ? model.info.input_size : options.input_size};
  for (const std::int64_t size : wanted.input_size) {
    require_positive(name, "a size in input_size", size);
  }
  return model.make(wanted);
}

}  // namespace lockstep::models
