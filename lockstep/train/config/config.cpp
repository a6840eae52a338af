#include "lockstep/train/config/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest.h"
#include "lockstep/base/text/text.h"
#include "lockstep/train/config/option_table.h"

namespace lockstep::train {
namespace {

std::string text_of(const std::string& value) { return value; }
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(double value) {
  // The shortest form of 100000 is 1e+05.
  if (std::abs(value) < 1e15 && value == std::trunc(value)) {
    return std::to_string(static_cast<std::int64_t>(value));
  }
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}
template <class Integer>
  requires std::is_integral_v<Integer>
std::string text_of(Integer value) {
  return std::to_string(value);
}
std::string text_of(const std::vector<std::int64_t>& values) {
  std::vector<std::string> texts;
  for (const auto value : values) {
    texts.push_back(std::to_string(value));
  }
  return "[" + join(texts, ", ") + "]";
}

std::string quoted(const std::string& text) {
  const char quote = contains(text, "\"") ? '\'' : '"';
  return quote + text + quote;
}

// "not given" for a value by which the program chooses itself: a number there would look as if
// somebody had asked for it.
std::string shown(const std::string& name, const std::string& value) {
  static const std::map<std::string, std::string> chosen_by_program{
      {"--lr", "0"},       {"--lr-base", "0"},  {"--hflip", "-1"},
      {"--workers", "-1"}, {"--max-bad", "-1"}, {"--validation-batch-size", "0"}};
  const auto found = chosen_by_program.find(name);
  const bool is_chosen = found != chosen_by_program.end() && found->second == value;
  const bool is_empty_flag = name.starts_with("--") && (value.empty() || value == "[]");
  return is_chosen || is_empty_flag ? "not given" : "'" + value + "'";
}

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

// `right` is a value that would do.
[[noreturn]] void refuse(const std::string& flag, const std::string& value,
                         const std::string& expected, const std::string& right) {
  throw UsageError(flag + " is " + value + ", expected " + expected + "; HINT: " + flag + " " +
                   right);
}

// Advises the default: the smallest or largest allowed value would be poor advice. A default that
// only stands for a choice of ours, such as 0 of --lr, is not shown.
[[noreturn]] void refuse_for_default(const std::string& flag, double value,
                                     const std::string& expected) {
  std::string used = "the default";
  const TrainConfig defaults;
  visit_options(defaults, [&](const OptionInfo& info, const auto& member) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(member)>>) {
      if (name_of(info) == flag && member > 0) {
        used = text_of(member);
      }
    }
  });
  throw UsageError(flag + " is " + text_of(value) + ", expected " + expected + "; HINT: leave " +
                   flag + " out for " + used);
}

void require_at_least(const char* flag, double value, double least) {
  if (!(value >= least) || !std::isfinite(value)) {
    refuse_for_default(flag, value, "a number of " + text_of(least) + " or more");
  }
}

void require_between(const char* flag, double value, double least, double most) {
  if (!(value >= least && value <= most)) {
    refuse_for_default(flag, value, "a number from " + text_of(least) + " to " + text_of(most));
  }
}

void require_part(const char* flag, double value) {
  if (!(value >= 0 && value <= 1)) {
    refuse_for_default(flag, value, "a number from 0 to 1");
  }
}

void require_one_of(const char* flag, const std::string& value,
                    const std::vector<std::string>& names) {
  if (std::ranges::find(names, value) == names.end()) {
    refuse(flag, "'" + value + "'", "one of " + join(names, ", "),
           nearest_name(value, names).value_or(names.front()));
  }
}

void require_sensible_batches(const TrainConfig& config) {
  const auto count = [](std::int64_t value) { return static_cast<double>(value); };
  // The product of a batch, passes and ranks is a number of 64 bits, too.
  constexpr double kMost = 1 << 24;
  require_between("--batch-size", count(config.batch_size), 1, kMost);
  require_between("--global-batch-size", count(config.global_batch_size), 0, kMost);
  require_between("--validation-batch-size", count(config.validation_batch_size), 0, kMost);
  require_between("--grad-accum", count(config.grad_accum), 1, kMost);
  require_between("--input-size", count(config.input_size), 1, 1 << 14);
  require_between("--workers", config.workers, -1, 1024);
  require_at_least("--epochs", config.epochs, 1);
  require_at_least("--log-interval", count(config.log_interval), 1);
  require_at_least("--checkpoint-interval", count(config.checkpoint_interval), 0);
  require_at_least("--early-stop", config.early_stop, 0);
  require_at_least("--fast-dev-run", count(config.fast_dev_run), 0);
}

void require_sensible_images(const TrainConfig& config) {
  require_at_least("--max-bad", static_cast<double>(config.max_bad), -1);
  require_at_least("--cache-shorter-side", static_cast<double>(config.cache_shorter_side), 0);
  require_between("--crop-padding", static_cast<double>(config.crop_padding), 0, 1 << 16);
  require_one_of("--decode", config.decode, {"exact", "fast"});
  if (config.hflip != -1) {
    require_part("--hflip", config.hflip);
  }
  if (!config.cache.empty()) {
    require_one_of("--cache", config.cache, {"ram", "disk"});
  }
  if (config.cache == "disk" && config.cache_dir.empty()) {
    throw UsageError(
        "--cache disk has no folder, expected one on a disk of this host; HINT: --cache-dir "
        "/var/tmp");
  }
  if (std::error_code error;
      config.cache == "disk" && !std::filesystem::is_directory(config.cache_dir, error)) {
    throw UsageError("--cache-dir: there is no folder '" + config.cache_dir + "'; HINT: mkdir -p " +
                     config.cache_dir);
  }
  if (config.cache != "disk" && !config.cache_dir.empty()) {
    throw UsageError(
        "--cache-dir is given without --cache disk, which alone writes there; HINT: "
        "--cache disk");
  }
  if (config.cache.empty() && config.cache_shorter_side > 0) {
    throw UsageError(
        "--cache-shorter-side is given without --cache, without which images are not reduced; "
        "HINT: --cache ram");
  }
  if (!config.cache.empty() && config.decode == "fast") {
    throw UsageError(
        "--decode fast is given with --cache, which keeps the pixels of exact decoding, so it "
        "would change nothing; HINT: leave --decode out");
  }
}

void require_growing(std::vector<std::int64_t> milestones) {
  const auto given = milestones;
  std::ranges::sort(milestones);
  const auto repeated = std::ranges::unique(milestones);
  milestones.erase(repeated.begin(), repeated.end());
  std::erase_if(milestones, [](std::int64_t epoch) { return epoch < 1; });
  if (milestones != given) {
    const auto right = text_of(milestones.empty() ? std::vector<std::int64_t>{30} : milestones);
    refuse("--decay-milestones", text_of(given), "epochs of 1 or more, each later than the last",
           without_spaces(right.substr(1, right.size() - 2)));
  }
}

void require_sensible_optimizer(const TrainConfig& config) {
  require_one_of("--opt", config.opt, {"sgd", "nesterov", "adam", "adamw"});
  require_one_of("--sched", config.sched, {"cosine", "linear", "step", "multistep", "constant"});
  require_one_of("--clip-mode", config.clip_mode, {"norm", "value"});
  require_one_of("--nonfinite", config.nonfinite, {"abort", "skip", "ignore"});
  require_one_of("--tf32", config.tf32, {"off", "conv", "on"});
  require_at_least("--lr", config.lr, 0);
  require_at_least("--lr-base", config.lr_base, 0);
  require_at_least("--lr-base-size", static_cast<double>(config.lr_base_size), 1);
  require_part("--momentum", config.momentum);
  require_at_least("--weight-decay", config.weight_decay, 0);
  require_at_least("--warmup-epochs", config.warmup_epochs, 0);
  require_at_least("--warmup-lr", config.warmup_lr, 0);
  require_at_least("--min-lr", config.min_lr, 0);
  require_at_least("--decay-rate", config.decay_rate, 0);
  require_at_least("--clip-grad", config.clip_grad, 0);
  if (!(config.decay_epochs > 0) || !std::isfinite(config.decay_epochs)) {
    refuse_for_default("--decay-epochs", config.decay_epochs, "more than 0");
  }
  if (config.warmup_epochs > 0 && config.warmup_epochs >= config.epochs) {
    throw UsageError("--warmup-epochs is " + text_of(config.warmup_epochs) + ", but --epochs is " +
                     text_of(config.epochs) +
                     ", so the learning rate would never be reached; expected fewer; HINT: "
                     "--warmup-epochs " +
                     text_of(config.epochs / 10.0));
  }
  require_growing(config.decay_milestones);
  if (config.sched == "multistep" && config.decay_milestones.empty()) {
    const int third = std::max(1, config.epochs / 3);
    throw UsageError(
        "--sched multistep has no milestones, so the learning rate would never fall; expected the "
        "epochs after which it does; HINT: --decay-milestones " +
        std::to_string(third) + "," + std::to_string(2 * third) + ", or --sched constant");
  }
  if (config.lr > 0 && config.lr_base > 0) {
    throw UsageError(
        "--lr and --lr-base are both given, expected one of them; HINT: leave --lr out");
  }
}

}  // namespace

std::string to_toml(const TrainConfig& config) {
  std::string toml;
  visit_options(config, [&](const OptionInfo& info, const auto& member) {
    const std::string text = text_of(member);
    constexpr bool kIsText = std::is_same_v<std::remove_cvref_t<decltype(member)>, std::string>;
    if (!text.empty() && text != "[]") {
      toml += name_of(info).substr(2) + " = " + (kIsText ? quoted(text) : text) + "\n";
    }
  });
  return toml + config.started_by;
}

std::string name_of(const OptionInfo& info) {
  for (const auto& name : split(info.names, ',')) {
    if (name.starts_with("--")) {
      return name;
    }
  }
  return info.names;
}

Settings settings_of(const TrainConfig& config) {
  Settings settings;
  visit_options(config, [&](const OptionInfo& info, const auto& member) {
    if (info.effect == Effect::kNumbers) {
      settings.emplace_back(name_of(info), text_of(member));
    }
  });
  return settings;
}

Settings with_defaults(Settings saved) {
  for (auto& setting : settings_of({})) {
    if (std::ranges::find(saved, setting.first, &Settings::value_type::first) == saved.end()) {
      saved.push_back(std::move(setting));
    }
  }
  return saved;
}

Settings without_path_of_data(Settings settings) {
  std::erase_if(settings, [](const auto& setting) { return setting.first == "--data-dir"; });
  return settings;
}

Settings without_places(Settings settings) {
  std::erase_if(settings, [](const auto& setting) { return setting.first == "--cache"; });
  return without_path_of_data(std::move(settings));
}

std::string difference(const Settings& here, const Settings& there, const std::string& other) {
  std::map<std::string, std::string> others(there.begin(), there.end());
  std::string lines;
  for (const auto& [name, value] : here) {
    const auto found = others.find(name);
    const std::string theirs = found == others.end() ? "missing" : shown(name, found->second);
    if (found == others.end() || found->second != value) {
      lines += "\n  " + name + " is " + shown(name, value) + " here and " + theirs + " " + other;
    }
    if (found != others.end()) {
      others.erase(found);
    }
  }
  for (const auto& [name, value] : others) {
    lines += "\n  " + name + " is missing here and " + shown(name, value) + " " + other;
  }
  return lines;
}

void require_sensible(const TrainConfig& config) {
  require_sensible_batches(config);
  require_sensible_images(config);
  require_sensible_optimizer(config);
  require_part("--smoothing", config.smoothing);
  require_at_least("--mixup", config.mixup, 0);
  require_at_least("--cutmix", config.cutmix, 0);
  require_part("--reprob", config.reprob);
  require_part("--model-ema-decay", config.model_ema_decay);
  if (!(config.val_split > 0 && config.val_split < 1)) {
    refuse_for_default("--val-split", config.val_split, "a number between 0 and 1");
  }
  if (!config.amp.empty()) {
    require_one_of("--amp", config.amp, {"bf16", "fp16", "O0", "O1", "O2", "O3"});
  }
  if (config.resume.empty()) {
    throw UsageError(
        "--resume is empty, expected auto, last, best, no or a path; HINT: leave it out");
  }
}

}  // namespace lockstep::train
