#include "lockstep/train/loop/agreement.h"

#include <ATen/ops/full.h>
#include <torch/version.h>

#include <fstream>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "lockstep/base/crc32c/crc32c.h"
#include "lockstep/base/error.h"
#include "lockstep/base/loaded_library.h"
#include "lockstep/base/text/text.h"

namespace lockstep::train {
namespace {

std::string packed(const Settings& settings) {
  std::string text;
  for (const auto& [name, value] : settings) {
    text.append(name).push_back('\0');
    text.append(value).push_back('\0');
  }
  return text;
}

Settings settings_from_bytes(const std::string& text) {
  Settings settings;
  const auto parts = split(text, '\0');
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    settings.emplace_back(parts[i], parts[i + 1]);
  }
  return settings;
}

// Which LibTorch this process has loaded. The program's checksum covers what it was built for, not
// what it was started with: LD_LIBRARY_PATH, or a folder of the same name on another machine, may
// bring other libraries.
std::string libtorch() {
  std::string text = "built for " TORCH_VERSION;
  for (const char* library : {"libc10.so", "libtorch_cpu.so"}) {
    const auto build = build_of_loaded_library(library);
    text += std::string(", ") + library + " " + (build.empty() ? "not loaded" : build);
  }
  return text;
}

}  // namespace

Settings program_of_this_rank() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::uint32_t sum = 0;
  std::uint64_t size = 0;
  for (std::string part(1 << 20, '\0'); file;) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    const auto got = static_cast<std::size_t>(file.gcount());
    sum = extend_crc32c(sum, std::as_bytes(std::span(part.data(), got)));
    size += got;
  }
  return {{"the program", std::to_string(size) + " bytes, checksum " + std::to_string(sum)},
          {"LibTorch", libtorch()}};
}

Settings settings_of_rank(const TrainConfig& config, const BatchPlan& batches,
                          const DataSource& source) {
  auto settings = program_of_this_rank();
  for (auto& setting : without_path_of_data(settings_of(config))) {
    settings.push_back(std::move(setting));
  }
  settings.emplace_back("the data", source.index);
  settings.emplace_back("the test part", source.test_index);
  const std::initializer_list<std::pair<const char*, std::int64_t>> meetings = {
      {"steps in an epoch", batches.steps_per_epoch},
      {"samples in a step", batches.global},
      {"--grad-accum", batches.accumulation},
      {"--log-interval", config.log_interval},
      {"--checkpoint-interval", config.checkpoint_interval},
      {"--fast-dev-run", config.fast_dev_run},
      {"--strict", config.strict ? 1 : 0},
      {"--eval-only", config.eval_only ? 1 : 0},
      {"--dry-run", config.dry_run ? 1 : 0}};
  for (const auto& [name, value] : meetings) {
    settings.emplace_back(name, std::to_string(value));
  }
  settings.emplace_back("--nonfinite", config.nonfinite);  // One that stops leaves the others.
  settings.emplace_back("--max-bad", std::to_string(config.max_bad));
  return settings;
}

void require_same(const Group& group, const Settings& settings) {
  const auto all = group.all_gather_bytes(packed(settings));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) {
      throw UsageError(
          "rank " + std::to_string(rank) + " has other settings than rank 0:" +
          difference(settings_from_bytes(all[rank]), settings_from_bytes(all[0]), "on rank 0") +
          "\nHINT: start all ranks with the same program, flags and data ('here' is rank " +
          std::to_string(rank) + ")");
    }
  }
}

std::int64_t largest(const Group& group, std::int64_t value) {
  const auto tensor = at::full({1}, value, at::kLong);
  group.all_reduce(tensor, {.op = ReduceOp::kMax}).wait();
  return tensor.item<std::int64_t>();
}

}  // namespace lockstep::train
