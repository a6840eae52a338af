// `lockstep bench step`: whole training steps of ours and of PyTorch's DistributedDataParallel, and
// of the same modules without it, in one run.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "benchmarks/driver/bench.h"
#include "benchmarks/driver/step_jobs.h"
#include "benchmarks/driver/step_result.h"
#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"

namespace lockstep::bench {
namespace {

struct StepOptions {
  std::vector<std::string> models;  // Empty: those of the device.
  std::vector<int> ranks;           // The same.
  std::vector<std::string> variants{"ddp"};
  int rounds = 7;
  int steps = 0;       // 0: as many as fit into a turn.
  int batch_size = 0;  // 0: the device's.
  std::string device = "cpu";
  std::string backend;  // Empty: the device's.
  std::string precision = "bf16";
  std::string python;
  std::string spoiled;
  bool cuda_graph = false;
  bool reduce_alone = false;
  bool default_malloc = false;
  bool json = false;
};

// How long the timed steps of a turn take together, and how many they are.
constexpr double kStepsSeconds = 0.4;
constexpr int kFewestSteps = 3;
constexpr int kMostSteps = 2000;
// Each contender takes these before the first round; their losses are compared.
constexpr int kCheckedSteps = 5;
// LibTorch itself takes this much.
constexpr std::size_t kBytesPerProcess = std::size_t{256} << 20;

// What a device is measured with, unless something else is asked for.
StepOptions with_defaults(StepOptions options) {
  const bool cuda = options.device == "cuda";
  if (options.models.empty()) {
    options.models = cuda ? std::vector<std::string>{"mlp", "resnet50"}
                          : std::vector<std::string>{"mlp", "convnet", "resnet18"};
  }
  if (options.ranks.empty()) {
    options.ranks = cuda ? std::vector<int>{1} : std::vector<int>{1, 2};
  }
  if (options.backend.empty()) {
    options.backend = cuda ? "nccl" : "lockstep";
  }
  return options;
}

int batch_size_of(const std::string& model, const StepOptions& options) {
  if (options.batch_size > 0) {
    return options.batch_size;
  }
  return options.device == "cuda" && model == "mlp" ? 128 : 32;
}

// What is computed in: autocast is for ResNets on a GPU.
std::string precision_of(const std::string& model, const StepOptions& options) {
  const bool autocast = options.device == "cuda" && model.starts_with("resnet");
  return options.device == "cuda" && (autocast || options.precision == "tf32") ? options.precision
                                                                               : "fp32";
}

void require_possible(const StepOptions& options) {
  const int ranks = *std::ranges::max_element(options.ranks);
  if (options.device == "cuda" && ranks > 1) {
    throw UsageError("step: --ranks " + std::to_string(ranks) +
                     " with --device cuda, expected 1: all contenders use the first GPU");
  }
  if ((options.device == "cuda") != (options.backend == "nccl")) {
    throw UsageError("step: --backend " + options.backend + " with --device " + options.device +
                     ", expected nccl on a GPU and lockstep, shm or gloo elsewhere");
  }
  if (options.cuda_graph && options.device != "cuda") {
    throw UsageError("step: --cuda-graph with --device " + options.device + ", expected cuda");
  }
  if (options.precision == "fp16" && std::ranges::count(options.variants, "in_backward") > 0) {
    throw UsageError(
        "step: --precision fp16 with the variant in_backward, expected another precision: the "
        "optimizer steps before GradScaler could unscale");
  }
  const auto free = free_memory();
  const std::size_t needed = kStepContenders * static_cast<std::size_t>(ranks) * kBytesPerProcess;
  if (needed > free.bytes) {
    throw UsageError("step: " + std::to_string(ranks) + " ranks of each contender need " +
                     size_text(needed) + " or more, but " + free.limited_by + " has " +
                     size_text(free.bytes) + " left; take fewer --ranks");
  }
}

// glibc gives the top of the heap back to the system and asks for it again, in every step or never,
// depending on what happens to lie there: up to a third of a step, and not the same on all
// contenders. Our DistributedDataParallel asks it to keep memory. Unless the user decided
// otherwise, all contenders do, so that the others are not measured with a handicap.
void keep_memory() {
  ::setenv("MALLOC_TRIM_THRESHOLD_", "1073741824", /*replace=*/0);
  ::setenv("MALLOC_MMAP_THRESHOLD_", "33554432", /*replace=*/0);
  ::setenv("MALLOC_TOP_PAD_", "16777216", /*replace=*/0);
}

// As long a turn for all contenders. Warming up takes a quarter of it at most.
StepJobs::Turn turn_for(double seconds, const StepOptions& options) {
  const auto fitting = static_cast<int>(std::min<double>(kMostSteps, kStepsSeconds / seconds));
  const int steps = options.steps > 0 ? options.steps : std::max(kFewestSteps, fitting);
  return {.warm = std::clamp(steps / 4, 1, 20), .steps = steps};
}

// Every round, each contender has one turn; the next one goes the opposite way. A round that does
// not count comes first and tells how many steps fit into a turn.
void measure(StepJobs& jobs, const StepOptions& options, StepRow& row) {
  std::array<StepJobs::Turn, kStepContenders> turns;
  turns.fill({.warm = 0, .steps = kFewestSteps});
  for (int round = 0; round <= options.rounds; ++round) {
    for (std::size_t i = 0; i < kStepContenders; ++i) {
      const auto contender =
          static_cast<StepContender>(round % 2 == 0 ? i : kStepContenders - 1 - i);
      if (!jobs.missing(contender).empty()) {
        continue;
      }
      jobs.take_turn(contender, turns[contender], row);
      if (round == 0) {
        turns[contender] = turn_for(row.measured[contender].rounds.front(), options);
        row.measured[contender].rounds.clear();
      }
    }
    if (round == 0) {
      row.hidden.clear();
    }
  }
}

StepRow measured_row(const std::string& model, int ranks, const std::string& variant,
                     const StepOptions& options) {
  StepRow row{.model = model,
              .variant = variant == "ddp" ? "" : variant,
              .device = options.device,
              .ranks = ranks,
              .batch_size = batch_size_of(model, options),
              .precision = precision_of(model, options),
              .cuda_graph = options.cuda_graph,
              .reduce_alone = options.reduce_alone};
  StepJobs jobs({.model = model,
                 .ranks = ranks,
                 .batch_size = row.batch_size,
                 .device = options.device,
                 .backend = options.backend,
                 .python = options.python,
                 .precision = options.precision,
                 .cuda_graph = options.cuda_graph,
                 .reduce_alone = options.reduce_alone,
                 .variant = row.variant,
                 .spoiled = options.spoiled},
                kCheckedSteps);
  measure(jobs, options, row);
  jobs.finish();
  row.pytorch_missing = jobs.missing(kPytorch);
  return row;
}

void step(const StepOptions& given) {
  const auto options = with_defaults(given);
  require_possible(options);
  if (!options.default_malloc) {
    keep_memory();
  }
  if (!options.json) {
    print_step_header(options.rounds);
  }
  std::vector<StepRow> rows;
  for (const auto& model : options.models) {
    for (const int ranks : options.ranks) {
      for (const auto& variant : options.variants) {
        rows.push_back(measured_row(model, ranks, variant, options));
        options.json ? print_step_json(rows.back()) : print_step_row(rows.back());
      }
    }
  }
  if (!options.json) {
    print_step_memory(rows);
    std::printf("\n%s", kStepNotes);
    for (const auto& row : rows) {
      if (!row.pytorch_missing.empty()) {
        std::printf("PyTorch took no part in %s: %s\n", row.model.c_str(),
                    row.pytorch_missing.c_str());
      }
    }
  }
}

}  // namespace

void add_step(CLI::App& app) {
  const auto options = std::make_shared<StepOptions>();
  options->python = LOCKSTEP_BENCH_PYTHON;
  auto* command = app.add_subcommand(
      "step", "training steps with DistributedDataParallel, beside PyTorch's and plain modules");
  command->add_option("--models", options->models, "mlp, convnet, resnet18, resnet50")
      ->delimiter(',')
      ->check(CLI::IsMember({"mlp", "convnet", "resnet18", "resnet50"}))
      ->option_text("mlp,convnet,resnet18");
  command->add_option("--ranks", options->ranks, "numbers of ranks, each 1 to 64")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->option_text("1,2");
  command
      ->add_option("--variants", options->variants,
                   "a row each: ddp; zero, with ZeroRedundancyOptimizer; in_backward, ours with "
                   "the optimizer's steps in backward; data_parallel, ours in one process with as "
                   "many replicas")
      ->delimiter(',')
      ->check(CLI::IsMember({"ddp", "zero", "in_backward", "data_parallel"}))
      ->option_text("ddp");
  command->add_option("--rounds", options->rounds, "turns of each contender; medians are shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--steps", options->steps, "timed in a turn; else as many as take 0.4 s")
      ->check(CLI::Range(1, 100000))
      ->option_text("N");
  command->add_option("--batch-size", options->batch_size, "of each rank")
      ->check(CLI::Range(1, 65536))
      ->option_text("32");
  command
      ->add_option("--backend", options->backend,
                   "of our group: lockstep, shm, gloo or nccl; barrier: plain modules that only "
                   "wait for each other after each step, the most that any could reach")
      ->check(CLI::IsMember({"lockstep", "shm", "gloo", "nccl", "barrier"}))
      ->option_text("lockstep");
  command
      ->add_option("--device", options->device,
                   "cpu, or cuda: one rank; mlp with a batch of 128, resnet50 with 224 pixels, "
                   "channels last")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command
      ->add_option(
          "--precision", options->precision,
          "on a GPU: bf16 (autocast, of ResNets; others in fp32), fp16 (the same with GradScaler), "
          "tf32 or fp32")
      ->check(CLI::IsMember({"bf16", "fp16", "tf32", "fp32"}))
      ->capture_default_str();
  command->add_flag(
      "--cuda-graph", options->cuda_graph,
      "our contenders record their step once and replay it; PyTorch's stay as they are");
  command->add_flag(
      "--reduce-alone", options->reduce_alone,
      "our DistributedDataParallel sums its gradients with one rank, too, where there "
      "is nothing to be summed: what a reduction costs");
  command->add_option("--python", options->python, "a Python that has torch; '' leaves PyTorch out")
      ->capture_default_str();
  command->add_flag(
      "--default-malloc", options->default_malloc,
      "leave malloc to each contender: where it is not told otherwise, it may give memory "
      "back in every step");
  command->add_flag("--json", options->json, "one JSON object per row, times in seconds");
  command->add_option("--spoil", options->spoiled)->group("");  // For tests: see training.h.
  command->footer(kStepNotes);
  command->callback([options] { step(*options); });
}

}  // namespace lockstep::bench
