// What a training run needs to go on, as one file that Python's torch.load(weights_only=True)
// reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/checkpoint/read.h"
#include "lockstep/checkpoint/value.h"
#include "lockstep/data/samplers/distributed_sampler.h"
#include "lockstep/train/checkpoint/map_location.h"
#include "lockstep/train/checkpoint/rng_state.h"
#include "lockstep/train/checkpoint/state_dict.h"
#include "lockstep/train/optim/optimizer.h"

namespace lockstep {

// Each member is a key of the file, under this name; what is empty is left out. The first ones are
// those of torchvision's reference training.
struct Checkpoint {
  StateDict model;
  StateDict model_ema;
  std::optional<optim::OptimizerState> optimizer;
  checkpoint::Value lr_scheduler;  // The dictionaries of their state_dict().
  checkpoint::Value scaler;
  std::optional<std::int64_t> epoch;
  checkpoint::Value args;
  std::optional<data::SamplerPosition> sampler;
  RngState rng;  // All ranks'; its members are the keys of a dictionary.
  checkpoint::Value metrics;
  std::vector<std::string> class_names;
  std::vector<double> mean;  // For the normalisation of images.
  std::vector<double> std;
  std::vector<std::int64_t> input_size;
  // Keys without a member above. `lockstep train` keeps "rank_scores", "master_weights" and "job"
  // here (lockstep/train/loop); the rest of a stranger's file lands here, too.
  checkpoint::Dict others;
};

using TakeTensor = std::function<checkpoint::Tensor(const at::Tensor&)>;
checkpoint::Value to_value(const Checkpoint& checkpoint, const TakeTensor& take);

// Also of a plain state dict, of torchvision's and of timm's checkpoints (state_dict,
// state_dict_ema), and with the keys of PyTorch's tutorial (model_state_dict). Throws IoError that
// starts with `file` and names the key that is not what it must be; where `format` is not ours,
// keys beside the models go to `others` then.
Checkpoint from_value(const std::string& file, const checkpoint::Value& root,
                      const MapLocation& map_location = {},
                      checkpoint::Format format = checkpoint::Format::kLockstep);

struct LoadedCheckpoint {
  Checkpoint checkpoint;
  std::string file;    // Where it was.
  std::string reason;  // Why it is prev.pt and not last.pt; empty otherwise.
};
// Loads a file; for a folder, its last.pt, or prev.pt if that is damaged or missing. Throws IoError
// that names file, tensor and offset, also if last.pt is there and cannot be opened. Ranks that
// read at different times may get different files: let rank 0 choose, and the others load `file`.
LoadedCheckpoint load_checkpoint(const std::string& path, const MapLocation& map_location = {});

// A model alone, as a safetensors file, which is replaced as a whole. Blocks until the disk has it.
// Throws UsageError if a type has no name in that format, or a tensor is called "__metadata__", and
// IoError.
void save_safetensors(const std::string& path, const StateDict& model);

}  // namespace lockstep
