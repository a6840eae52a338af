#include "lockstep/train/session/describe_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "lockstep/base/host.h"
#include "lockstep/base/text/text.h"
#include "lockstep/train/input/image_parts.h"
#include "lockstep/train/loop/gpu_settings.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kMostHosts = 8;

// "0-3, 6" of 0, 1, 2, 3 and 6.
std::string as_ranges(const std::vector<int>& numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) {
      ++end;
    }
    parts.push_back(std::to_string(numbers[i]) +
                    (end - i > 1 ? "-" + std::to_string(numbers[end - 1]) : ""));
    i = end;
  }
  return join(parts, ", ");
}

std::string listed(const char* name, const std::vector<int>& numbers) {
  return std::string(name) + (numbers.size() == 1 ? " " : "s ") + as_ranges(numbers);
}

}  // namespace

std::vector<Place> places_of(const Group& world) {
  const auto device = world.device();
  const auto ids = world.gpu_ids();
  const auto index = static_cast<std::size_t>(std::max<int>(device.index(), 0));
  const int own = device.is_cuda() && index < ids.size() ? ids[index] : -1;
  std::vector<Place> places;
  for (const auto& bytes : world.all_gather_bytes(std::to_string(own) + " " + host_name())) {
    const auto space = bytes.find(' ');
    const auto gpu = parse_int(bytes.substr(0, space)).value_or(-1);
    places.push_back({bytes.substr(std::min(space + 1, bytes.size())), static_cast<int>(gpu)});
  }
  return places;
}

std::string describe_places(const std::vector<Place>& places) {
  struct Host {
    std::vector<int> ranks;
    std::vector<int> gpus;
  };
  std::map<std::string, Host> hosts;
  std::vector<std::string> names;  // In the order of their first ranks.
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const auto& place = places[rank];
    if (!hosts.contains(place.host)) {
      names.push_back(place.host);
    }
    auto& host = hosts[place.host];
    host.ranks.push_back(static_cast<int>(rank));
    // Ranks may share one.
    if (place.gpu >= 0 && std::ranges::find(host.gpus, place.gpu) == host.gpus.end()) {
      host.gpus.push_back(place.gpu);
    }
  }
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min(names.size(), kMostHosts); ++i) {
    const auto& host = hosts[names[i]];
    lines.push_back(names[i] + ": " + listed("rank", host.ranks) + " on " +
                    (host.gpus.empty() ? "the CPU" : listed("GPU", host.gpus)));
  }
  if (names.size() > kMostHosts) {
    lines.push_back("and " + std::to_string(names.size() - kMostHosts) + " more hosts");
  }
  return join(lines, "\n");
}

std::string describe_optimizer(const TrainConfig& config, const BatchPlan& batches) {
  std::array<char, 32> lr{};
  std::snprintf(lr.data(), lr.size(), "%g", initial_lr(config, batches));
  return config.opt + " with learning rate " + lr.data() + ", " + config.sched;
}

std::string describe_ema(const TrainConfig& config, const BatchPlan& batches) {
  if (!config.model_ema || config.eval_only) {
    return "";
  }
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), "model EMA %g: ", config.model_ema_decay);
  std::string line = text.data();
  line += "validation and best.pt are of the averaged weights";
  // The average begins as the first weights: whoever trains shortly sees little but those.
  constexpr double kMuch = 0.1;
  const auto steps = config.epochs * batches.steps_per_epoch;
  const double first = std::pow(config.model_ema_decay, static_cast<double>(steps));
  if (first > kMuch) {
    std::snprintf(text.data(), text.size(),
                  ", which are the first ones by %.0f %% still after all %lld steps", 100 * first,
                  static_cast<long long>(steps));
    line += text.data();
  }
  return line;
}

std::string describe_run(const RunPlan& plan, const Group& world) {
  const auto& [config, source, batches, parameters] = plan;
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  const auto gpu = describe_gpu(config, batches, world);
  const auto ema = describe_ema(config, batches);
  const int ranks = ranks_to_train(config, world.size());
  const std::string dry_run = ranks == world.size()
                                  ? ""
                                  : "dry run: " + counted(ranks, "rank") +
                                        " would be started; this is one that looks for all\n";
  return world.description() + "\n" + describe_places(places_of(world)) + "\n" + dry_run +
         describe_data(source) + "\n" + config.model + " with " + number(parameters) +
         " parameters; " + counted(config.epochs, "epoch") + " of " +
         counted(batches.steps_per_epoch, "step") + " of " + number(batches.global) + " (" +
         number(batches.per_rank) + " x " + counted(ranks, "rank") +
         (batches.accumulation > 1 ? " x " + number(batches.accumulation) + " passes" : "") + ")" +
         (ema.empty() ? "" : "\n" + ema) + (gpu.empty() ? "" : "\n" + gpu);
}

}  // namespace lockstep::train
