#include "lockstep/train/checkpoint/checkpoint.h"

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/text.h"
#include "lockstep/checkpoint/folder.h"
#include "lockstep/checkpoint/read.h"
#include "lockstep/checkpoint/safetensors.h"
#include "lockstep/data/workers/recycled_memory.h"
#include "lockstep/train/checkpoint/key_reader.h"
#include "lockstep/train/checkpoint/optimizer_value.h"
#include "lockstep/train/checkpoint/tensor_value.h"

namespace lockstep {
namespace {

using checkpoint::Dict;
using checkpoint::Entry;
using checkpoint::List;
using checkpoint::Value;

Value state_value(const StateDict& state, const TakeTensor& take) {
  Dict dict;
  for (const auto& [name, tensor] : state) {
    try {
      dict.push_back({name, take(tensor)});
    } catch (const UsageError& error) {
      throw UsageError("'" + name + "': " + error.what());
    }
  }
  return dict;
}

template <class T>
List list_of(const std::vector<T>& items) {
  return {items.begin(), items.end()};
}

// The keys under which programs save the weights: torchvision and we, timm and Lightning, PyTorch's
// tutorial. `average`: those of an average beside them.
struct WeightsKey {
  const char* weights;
  const char* average;
};
constexpr WeightsKey kWeightsKeys[] = {
    {"model", "model_ema"}, {"state_dict", "state_dict_ema"}, {"model_state_dict", "model_ema"}};

bool has_only_tensors(const Dict& dict) {
  return !dict.empty() && std::ranges::all_of(dict, [](const Entry& entry) {
    const auto* name = entry.key.get_if<std::string>();
    return name != nullptr && (*name == "__metadata__" || name->ends_with("_extra_state") ||
                               entry.value.get_if<checkpoint::Tensor>() != nullptr ||
                               entry.value.get_if<checkpoint::OtherTensor>() != nullptr);
  });
}

// Null if there is none. What holds tensors goes before what does not: {"model": "resnet18"}.
const WeightsKey* weights_key(const Value& root) {
  const WeightsKey* best = nullptr;
  for (const WeightsKey& key : kWeightsKeys) {
    const Value* const value = root.find(key.weights);
    const auto* dict = value == nullptr ? nullptr : value->get_if<Dict>();
    if (dict != nullptr && has_only_tensors(*dict)) {
      return &key;
    }
    best = best == nullptr && value != nullptr ? &key : best;
  }
  return best;
}

std::string keys_of(const Dict& dict) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < std::min<std::size_t>(dict.size(), 8); ++i) {
    const auto* name = dict[i].key.get_if<std::string>();
    keys.push_back(name == nullptr ? "?" : "'" + printable(*name, "", "?") + "'");
  }
  return join(keys, ", ");
}

// Nothing for one of another program that has another form: the weights beside it are of use.
std::optional<optim::OptimizerState> optimizer_of(KeyReader& reader, const std::string& key,
                                                  const MapLocation& map_location) {
  const Value* const value = reader.get(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  try {
    return optimizer_from_value(*value, map_location);
  } catch (const IoError& error) {
    reader.refuse(key, error);
    return std::nullopt;
  } catch (const UsageError& error) {
    throw UsageError("'" + reader.file() + "': the optimizer's state: " + error.what());
  }
}

std::optional<data::SamplerPosition> sampler_of(KeyReader& reader) {
  const Value* const value = reader.get("sampler");
  if (value == nullptr) {
    return std::nullopt;
  }
  const auto number = [&](const char* key) {
    const Value* const found = value->find(key);
    return found == nullptr ? nullptr : found->get_if<std::int64_t>();
  };
  const auto* seed = number("seed");
  const auto* epoch = number("epoch");
  const auto* consumed = number("consumed");
  if (seed == nullptr || epoch == nullptr || consumed == nullptr) {
    reader.refuse("sampler", *value, "a dictionary of seed, epoch and consumed");
    return std::nullopt;
  }
  return data::SamplerPosition{static_cast<std::uint64_t>(*seed), *epoch, *consumed};
}

// A tensor is the state of rank 0 alone, as in files before all ranks were in them.
RngState rng_of(KeyReader& reader) {
  const Value* const value = reader.get("rng");
  if (value == nullptr) {
    return {};
  }
  if (const auto* one = value->get_if<checkpoint::Tensor>()) {
    return {.cpu = {to_tensor(*one, "cpu")}, .cuda = {}};
  }
  const auto states = [&](const char* key) {
    const Value* const found = value->find(key);
    const auto* list = found == nullptr ? nullptr : found->get_if<List>();
    std::vector<at::Tensor> tensors;
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const auto* tensor = (*list)[i].get_if<checkpoint::Tensor>();
      if (tensor == nullptr) {
        return std::vector<at::Tensor>();
      }
      tensors.push_back(to_tensor(*tensor, "cpu"));
    }
    return tensors;
  };
  RngState state{.cpu = states("cpu"), .cuda = states("cuda")};
  if (state.cpu.empty()) {
    reader.refuse("rng", *value, "a dictionary with 'cpu', a list of a tensor for each rank");
    return {};
  }
  return state;
}

}  // namespace

Value to_value(const Checkpoint& checkpoint, const TakeTensor& take) {
  Dict root{{"model", state_value(checkpoint.model, take)}};
  const auto add = [&](const char* key, bool is_there, Value value) {
    if (is_there) {
      root.push_back({key, std::move(value)});
    }
  };
  if (checkpoint.optimizer) {
    root.push_back({"optimizer", to_value(*checkpoint.optimizer, take)});
  }
  add("lr_scheduler", !checkpoint.lr_scheduler.is_none(), checkpoint.lr_scheduler);
  add("scaler", !checkpoint.scaler.is_none(), checkpoint.scaler);
  add("epoch", checkpoint.epoch.has_value(), checkpoint.epoch.value_or(0));
  add("args", !checkpoint.args.is_none(), checkpoint.args);
  add("model_ema", !checkpoint.model_ema.empty(), state_value(checkpoint.model_ema, take));
  if (const auto& sampler = checkpoint.sampler) {
    root.push_back({"sampler", Dict{{"seed", static_cast<std::int64_t>(sampler->seed)},
                                    {"epoch", sampler->epoch},
                                    {"consumed", sampler->consumed}}});
  }
  if (!checkpoint.rng.cpu.empty()) {
    const auto states = [&](const std::vector<at::Tensor>& tensors) {
      List list;
      for (const auto& tensor : tensors) {
        list.push_back(take(tensor));
      }
      return list;
    };
    root.push_back(
        {"rng", Dict{{"cpu", states(checkpoint.rng.cpu)}, {"cuda", states(checkpoint.rng.cuda)}}});
  }
  add("metrics", !checkpoint.metrics.is_none(), checkpoint.metrics);
  add("class_names", !checkpoint.class_names.empty(), list_of(checkpoint.class_names));
  add("mean", !checkpoint.mean.empty(), list_of(checkpoint.mean));
  add("std", !checkpoint.std.empty(), list_of(checkpoint.std));
  add("input_size", !checkpoint.input_size.empty(), list_of(checkpoint.input_size));
  root.insert(root.end(), checkpoint.others.begin(), checkpoint.others.end());
  return root;
}

Checkpoint from_value(const std::string& file, const Value& root, const MapLocation& map_location,
                      checkpoint::Format format) {
  const auto* dict = root.get_if<Dict>();
  if (dict == nullptr) {
    throw IoError("'" + file + "' has " + std::string(kind_of(root)) +
                  " in it, expected a dictionary: a checkpoint or a state dict");
  }
  KeyReader reader({file, format}, *dict, map_location);
  Checkpoint result;
  if (has_only_tensors(*dict)) {
    Dict tensors = *dict;
    std::erase_if(tensors, [](const Entry& entry) {
      return *entry.key.get_if<std::string>() == "__metadata__";
    });
    result.model = reader.state(tensors, "");
    return result;
  }
  const WeightsKey* const key = weights_key(root);
  if (key == nullptr) {
    throw IoError("'" + file +
                  "' has no 'model', 'state_dict' or 'model_state_dict', and is no state dict; its "
                  "keys are " +
                  keys_of(*dict));
  }
  result.model = reader.state(key->weights);
  result.model_ema = reader.state(key->average);
  const bool is_tutorials = root.find("optimizer") == nullptr;
  result.optimizer =
      optimizer_of(reader, is_tutorials ? "optimizer_state_dict" : "optimizer", map_location);
  const auto copy = [&](const char* name) {
    const Value* const value = reader.get(name);
    return value == nullptr ? Value() : *value;
  };
  result.lr_scheduler = copy("lr_scheduler");
  result.scaler = copy(root.find("scaler") == nullptr ? "amp_scaler" : "scaler");
  result.args = copy("args");
  result.metrics = copy("metrics");
  if (const auto* epoch = reader.get_if<std::int64_t>("epoch", "an integer")) {
    result.epoch = *epoch;
  }
  result.sampler = sampler_of(reader);
  result.rng = rng_of(reader);
  result.class_names = reader.list<std::string>("class_names", "a list of text");
  result.mean = reader.list<double>("mean", "a list of numbers");
  result.std = reader.list<double>("std", "a list of numbers");
  result.input_size = reader.list<std::int64_t>("input_size", "a list of integers");
  result.others = reader.others();
  return result;
}

LoadedCheckpoint load_checkpoint(const std::string& path, const MapLocation& map_location) {
  const auto loaded = checkpoint::load_file_or_newest(path);
  return {from_value(loaded.file, loaded.document.root, map_location, loaded.document.format),
          loaded.file, loaded.reason};
}

void save_safetensors(const std::string& path, const StateDict& model) {
  StateDict contiguous;
  for (const auto& [name, tensor] : model) {
    contiguous.emplace_back(name, tensor.detach().contiguous());
  }
  Snapshot snapshot;
  const Value root =
      state_value(contiguous, [&](const at::Tensor& tensor) { return snapshot.take(tensor); });
  data::RecycledMemory memory;
  snapshot.copy_to(memory.take(snapshot.bytes()));
  const std::filesystem::path target(path);
  const auto folder = target.has_parent_path() ? target.parent_path().string() : ".";
  checkpoint::FileSystem files;
  checkpoint::replace_file(files, folder, {target.filename().string()},
                           [&](const checkpoint::Sink& sink) { write_safetensors(root, sink); });
}

}  // namespace lockstep
