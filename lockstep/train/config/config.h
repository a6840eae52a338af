// Everything a training run can be told, with its defaults: what `lockstep train` has flags for,
// and what the program itself adds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::train {

struct TrainConfig {
  // A name ("fashion-mnist", "generated"), a CSV file, a folder of idx or CIFAR files, or a folder
  // of images by class. Empty: Debian's Fashion-MNIST if it is installed, else generated images.
  std::string data;
  std::string model;       // Empty: the one that fits the data.
  std::string label;       // A table's column with the class, by name or number; empty: the last.
  double val_split = 0.1;  // Part that validates where the data has no such part.
  std::int64_t input_size = 224;  // Images in folders become squares of it.
  int workers = -1;               // Threads that load; -1: none for data in memory, else the cores.
  std::int64_t max_bad = -1;      // Image files of a part that may be bad, over all ranks; -1: 1 %.
  std::string decode = "exact";   // exact, fast: how JPEGs that train are decoded.
  std::string cache;              // ram, disk: where decoded images are kept; empty: nowhere.
  std::string cache_dir;          // For `disk`.
  std::int64_t cache_shorter_side = 0;  // To which images in the cache are reduced; 0: not.
  double hflip = -1;              // Probability of a mirrored image; -1: 0.5 in folders, else 0.
  std::int64_t crop_padding = 0;  // Around images in memory, before a crop of their size; 0: off.

  std::int64_t batch_size = 64;            // For each rank and backward pass.
  std::int64_t global_batch_size = 0;      // For a step over all ranks; instead of batch_size.
  std::int64_t validation_batch_size = 0;  // 0: that of training.
  std::int64_t grad_accum = 1;             // Backward passes of a step.

  int epochs = 3;
  std::string opt = "sgd";  // sgd, nesterov, adam, adamw.
  double lr = 0;            // 0: 0.02 of SGD, 0.001 of Adam and AdamW.
  double lr_base = 0;       // Instead of lr: the rate for a batch of lr_base_size, scaled to ours.
  std::int64_t lr_base_size = 256;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  // cosine, linear, step, multistep, constant. It steps after each update.
  std::string sched = "cosine";
  double warmup_epochs = 0;
  double warmup_lr = 1e-5;                     // Where the warm-up begins.
  double min_lr = 0;                           // Where cosine and linear end.
  double decay_epochs = 30;                    // For step.
  std::vector<std::int64_t> decay_milestones;  // For multistep, in epochs.
  double decay_rate = 0.1;                     // For step and multistep.
  double clip_grad = 0;                        // 0: gradients are not clipped.
  std::string clip_mode = "norm";              // norm, value.
  std::string nonfinite = "abort";             // abort, skip, ignore: gradients that are NaN.
  double smoothing = 0;                        // Label smoothing.
  double mixup = 0;                            // Alpha; 0: off.
  double cutmix = 0;                           // Alpha; 0: off.
  double reprob = 0;                           // Probability of erasing a part of an image.
  std::string amp;                             // bf16, fp16, O0 to O3; empty: float32.
  bool model_ema = false;                      // Validate and keep averages of the weights.
  double model_ema_decay = 0.9998;
  bool channels_last = false;
  bool cuda_graph = true;       // On a GPU, steps are recorded once and replayed.
  bool cudnn_benchmark = true;  // cuDNN tries its algorithms and takes the fastest.
  std::string tf32 = "conv";    // off, conv, on: what float32 may be rounded to on a GPU.
  bool deterministic = false;   // Algorithms that give the same bits each time, or an error.
  bool find_unused_parameters = false;
  bool sync_bn = false;  // Batch normalization over the batches of all ranks.
  std::uint64_t seed = 0;
  std::string init_weights;  // A checkpoint whose weights a new run starts with.

  std::string output = "runs";           // Where runs have their folders.
  std::string resume = "auto";           // auto, last, best, no, or the path of a checkpoint.
  std::int64_t log_interval = 50;        // Steps.
  std::int64_t checkpoint_interval = 0;  // Steps; 0: after each epoch alone.
  bool strict = false;                   // A checkpoint that cannot be saved ends the run.
  int early_stop = 0;                    // Epochs without a better accuracy; 0: never.
  std::int64_t fast_dev_run = 0;         // Steps and batches; nothing is written.
  bool eval_only = false;
  bool dry_run = false;    // Says what would be done.
  int planned_ranks = 0;   // Those that a dry run of one rank speaks for; 0: all are started.
  bool profile = false;    // Writes trace.json of ten steps, for chrome://tracing.
  std::string started_by;  // Lines for config.toml about the job's ranks.
  bool json = false;       // The closing summary as one JSON object, and nothing else, on stdout.
};

// How many ranks are to train, of which a dry run starts one.
inline int ranks_to_train(const TrainConfig& config, int world_size) {
  return config.planned_ranks > 0 ? config.planned_ranks : world_size;
}

using Settings = std::vector<std::pair<std::string, std::string>>;

// The settings on which the numbers of a run depend, as text, by the names of the flags. A run can
// only be resumed with the same.
Settings settings_of(const TrainConfig& config);

// `saved` with the defaults of those that it lacks: programs from before a setting did what is its
// default now.
Settings with_defaults(Settings saved);

// Without the path of the data, for comparisons that have its checksum: the same data may lie
// elsewhere on another machine, or later.
Settings without_path_of_data(Settings settings);

// What a run that goes on must keep: without the path of the data, and without --cache, which may
// not fit into another machine. A cache changes no number, but for which damaged files are
// replaced.
Settings without_places(Settings settings);

// "--lr is 0.1 here and 0.2 there", a line for each that differs; empty if none does.
std::string difference(const Settings& here, const Settings& there, const std::string& other);

// For a config file: all of them but those that are empty.
std::string to_toml(const TrainConfig& config);

// Throws UsageError that names the flag, what it is and what is expected.
void require_sensible(const TrainConfig& config);

}  // namespace lockstep::train
