// The flags of a TrainConfig: one table for the command line, the config file and comparisons.
//
// A new flag is a member of TrainConfig, a row here, a check in require_sensible() (config.cpp), a
// row in docs/reference/options.md, and a test that passes it (tests/system/test_train_flags.py).
#pragma once

#include <string>

#include "lockstep/train/config/config.h"

namespace lockstep::train {

enum class Effect {
  kNumbers,  // The run's numbers depend on it.
  kBatch,    // The same, but the global batch is compared instead.
  kOutput,   // Only what is written and shown.
};

struct OptionInfo {
  const char* names;  // As CLI11 takes them: aliases behind commas, the first is the name.
  const char* group;
  Effect effect;
  const char* help;
};

std::string name_of(const OptionInfo& info);  // "--batch-size".

// Calls visit(info, member) for each option, in the order of --help. `Config` may be const.
template <class Config, class Visit>
void visit_options(Config& config, const Visit& visit) {
  constexpr auto kNumbers = Effect::kNumbers;
  constexpr auto kBatch = Effect::kBatch;
  constexpr auto kOutput = Effect::kOutput;
  const char* group = "Data and network";
  const auto add = [&](const char* names, auto& member, Effect effect, const char* help) {
    visit(OptionInfo{names, group, effect, help}, member);
  };
  add("data,--data-dir,--data-path", config.data, kNumbers,
      "fashion-mnist, generated, a CSV, a folder of idx or CIFAR files, or of images by class");
  add("--model", config.model, kNumbers, "network; the one that fits the data");
  add("--label", config.label, kNumbers, "column of a table with the class; the last");
  add("--val-split", config.val_split, kNumbers,
      "part that validates if the data has no such part");
  add("--input-size,--img-size,--train-crop-size", config.input_size, kNumbers,
      "images of folders become squares of it");
  add("-j,--workers", config.workers, kOutput, "threads that load; -1: as many as help");
  add("--max-bad", config.max_bad, kOutput,
      "image files of a part that may be bad over all ranks: others train instead, scores lack "
      "them; -1: 1 %");
  add("--decode", config.decode, kNumbers,
      "exact, or fast: JPEGs that train may be decoded at a part of their size");
  add("--cache", config.cache, kNumbers, "ram or disk: keep decoded images for the next epochs");
  add("--cache-dir", config.cache_dir, kOutput, "folder of --cache disk, on a disk of this host");
  add("--cache-shorter-side", config.cache_shorter_side, kNumbers,
      "pixels to which larger images in the cache are reduced; 0: not");
  add("--init-weights,--initial-checkpoint", config.init_weights, kNumbers,
      "checkpoint whose weights a new run starts with");

  group = "Batches";
  add("-b,--batch-size", config.batch_size, kBatch, "samples of a rank in one backward pass");
  add("--global-batch-size", config.global_batch_size, kBatch,
      "samples of a step over all ranks, instead of --batch-size");
  add("--validation-batch-size", config.validation_batch_size, kOutput, "0: as in training");
  add("--grad-accum,--grad-accum-steps", config.grad_accum, kBatch, "backward passes of a step");

  group = "Optimizer";
  add("--epochs", config.epochs, kNumbers, "times that all training samples are seen");
  add("--opt,--optimizer", config.opt, kNumbers, "sgd, nesterov, adam or adamw");
  add("--lr,--learning-rate", config.lr, kNumbers, "0: 0.02 of SGD, 0.001 of Adam and AdamW");
  add("--lr-base", config.lr_base, kNumbers,
      "instead of --lr: rate for a batch of --lr-base-size, scaled to the global batch");
  add("--lr-base-size", config.lr_base_size, kNumbers,
      "samples of the batch that --lr-base is for");
  add("--momentum", config.momentum, kNumbers, "");
  add("--weight-decay,--wd", config.weight_decay, kNumbers, "");
  add("--sched,--lr-scheduler", config.sched, kNumbers,
      "cosine, linear, step, multistep or constant");
  add("--warmup-epochs,--lr-warmup-epochs", config.warmup_epochs, kNumbers, "");
  add("--warmup-lr", config.warmup_lr, kNumbers, "where the warm-up begins");
  add("--min-lr,--lr-min", config.min_lr, kNumbers, "where cosine and linear end");
  add("--decay-epochs,--lr-step-size", config.decay_epochs, kNumbers, "of step");
  add("--decay-milestones", config.decay_milestones, kNumbers, "of multistep: after these epochs");
  add("--decay-rate,--dr,--lr-gamma", config.decay_rate, kNumbers, "of step and multistep");
  add("--clip-grad,--clip-grad-norm", config.clip_grad, kNumbers, "0: gradients are not clipped");
  add("--clip-mode", config.clip_mode, kNumbers, "norm or value");
  add("--nonfinite", config.nonfinite, kOutput,
      "gradients or weights that are infinite or NaN: abort, skip the step, or ignore");
  add("--seed", config.seed, kNumbers, "of weights, order, split and augmentation");

  group = "Regularisation and precision";
  add("--smoothing,--label-smoothing", config.smoothing, kNumbers, "of labels");
  add("--mixup,--mixup-alpha", config.mixup, kNumbers, "alpha; 0: off");
  add("--cutmix,--cutmix-alpha", config.cutmix, kNumbers, "alpha; 0: off");
  add("--reprob,--random-erase", config.reprob, kNumbers, "probability of erasing a part");
  add("--hflip", config.hflip, kNumbers,
      "probability of a mirrored image; -1: 0.5 in folders, else 0");
  add("--crop-padding", config.crop_padding, kNumbers,
      "pixels around images in memory, before a random crop of their size; 0: off");
  add("--amp", config.amp, kNumbers, "bf16, fp16 or O0 to O3");
  add("--model-ema", config.model_ema, kNumbers,
      "keep averages of the weights; validation and best.pt are of them");
  add("--model-ema-decay", config.model_ema_decay, kNumbers, "of the average, in each step");
  add("--channels-last", config.channels_last, kNumbers, "memory format of images and weights");
  add("--cuda-graph,!--no-cuda-graph", config.cuda_graph, kOutput,
      "replay steps on a GPU as one CUDA graph, where they can be recorded; the default");
  add("--cudnn-benchmark,!--no-cudnn-benchmark", config.cudnn_benchmark, kNumbers,
      "let cuDNN try which algorithms are fastest; the default");
  add("--tf32", config.tf32, kNumbers, "off, conv or on: where a GPU may round float32 to TF32");
  add("--use-deterministic-algorithms,--deterministic", config.deterministic, kNumbers,
      "the same bits in each run, on a GPU, too");
  add("--find-unused-parameters", config.find_unused_parameters, kNumbers,
      "for networks that do not use all parameters in each step");
  add("--sync-bn", config.sync_bn, kNumbers, "batch normalization over the batches of all ranks");

  group = "Run";
  add("--output,--output-dir", config.output, kOutput, "where runs have their folders");
  add("--resume", config.resume, kOutput, "auto, last, best, no, or a checkpoint");
  add("--log-interval,--print-freq", config.log_interval, kOutput, "steps between lines");
  add("--checkpoint-interval", config.checkpoint_interval, kOutput,
      "steps between checkpoints; 0: one after each epoch");
  add("--strict", config.strict, kOutput, "a checkpoint that cannot be saved ends the run");
  add("--early-stop", config.early_stop, kNumbers, "epochs without a better accuracy; 0: never");
  add("--fast-dev-run", config.fast_dev_run, kOutput,
      "so many steps and validation batches; nothing is written");
  add("--eval-only,--test-only", config.eval_only, kOutput, "validates --resume or --init-weights");
  add("--dry-run", config.dry_run, kOutput, "says what would be done");
  add("--profile", config.profile, kOutput, "writes trace.json of ten steps, for chrome://tracing");
  add("--json", config.json, kOutput, "the closing summary as one JSON object on stdout");
}

}  // namespace lockstep::train
