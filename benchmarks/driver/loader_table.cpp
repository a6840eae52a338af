#include "benchmarks/driver/loader_table.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "benchmarks/driver/result_text.h"
#include "benchmarks/driver/timed_run.h"
#include "lockstep/base/host.h"

namespace lockstep::bench {
namespace {

std::string shown(const LoaderLine& line, const LoaderContender* contender) {
  const auto seconds = contender == nullptr ? std::nullopt : contender->median_seconds();
  if (!seconds) {
    return "-";
  }
  return line.is_time ? number_text(*seconds * 1e3, " ms")
                      : number_text(static_cast<double>(contender->samples) / *seconds);
}

// "2.19x", "11.1x": as many digits as tell whether a goal is reached.
std::string times_text(std::optional<double> times) {
  return times && *times < 10 ? ratio_text(times) + "x" : number_text(times, "x");
}

bool is_of(const LoaderLine& line, const LoaderContender& contender) {
  return contender.row == (contender.ours ? line.ours : line.peer);
}

}  // namespace

const std::vector<LoaderPart>& loader_parts() {
  static const std::vector<int> kOurs = {0, -1};
  static const std::vector<int> kPeers = {0, 1, 2, 4};
  static const std::vector<LoaderPart> kParts = {
      {"memory", {{"60,000 x 28 x 28 in memory", "memory", "memory"}}, kOurs, kPeers},
      {"photos",
       {{"photographs, exact", "exact", "exact"},
        {"photographs, fast", "fast", "exact"},
        {"photographs, second epoch", "cache", "exact"}},
       kOurs,
       kPeers},
      {"large",
       {{"1600 x 1200, exact", "large", "large"}, {"1600 x 1200, fast", "large-fast", "large"}},
       kOurs,
       kPeers},
      {"decode", {{"decode JPEG", "decode", "decode"}}, {0}, {0}},
      {"decode", {{"its entropy decoding alone", "entropy", ""}}, {0}, {}},
      {"files", {{"files: index", "index", "index", /*is_time=*/true}}, {0}, {0}},
      {"files", {{"files: first batch of 256", "first", "first", /*is_time=*/true}}, kOurs, kPeers},
  };
  return kParts;
}

std::vector<LoaderContender> contenders_of(const LoaderPart& part) {
  std::vector<LoaderContender> contenders;
  const auto add = [&](bool ours, const std::string& row, const std::vector<int>& workers) {
    for (const int count : workers) {
      const bool known = std::ranges::any_of(contenders, [&](const auto& contender) {
        return contender.ours == ours && contender.row == row && contender.workers == count;
      });
      if (!known) {
        contenders.push_back({.ours = ours, .row = row, .workers = count});
      }
    }
  };
  for (const auto& line : part.lines) {
    add(true, line.ours, part.our_workers);
    add(false, line.peer, part.peer_workers);
  }
  return contenders;
}

LoaderResult result_of(const LoaderLine& line, const std::vector<LoaderContender>& contenders) {
  LoaderResult result{.line = line};
  for (const auto& contender : contenders) {
    if (!is_of(line, contender)) {
      continue;
    }
    if (contender.ours) {
      (contender.workers == 0 ? result.our_core : result.our_auto) = &contender;
      continue;
    }
    if (contender.workers == 0) {
      result.peer_core = &contender;
    }
    const auto seconds = contender.median_seconds();
    if (result.peer_best == nullptr || seconds < result.peer_best->median_seconds()) {
      result.peer_best = &contender;
    }
  }
  if (result.our_auto == nullptr) {
    result.our_auto = result.our_core;
  }
  return result;
}

std::optional<double> times_as_fast(const LoaderContender* one, const LoaderContender* other) {
  if (one == nullptr || other == nullptr || one->seconds.empty() ||
      one->seconds.size() != other->seconds.size()) {
    return std::nullopt;
  }
  std::vector<double> ratios;
  for (std::size_t round = 0; round < one->seconds.size(); ++round) {
    ratios.push_back(other->seconds[round] / one->seconds[round]);
  }
  return median(ratios);
}

void print_loader_head(int rounds) {
  std::printf(
      "loading, medians of %d interleaved rounds, %d cores\n\n%-28s %12s %12s %12s %16s "
      "%9s %7s %10s\n",
      rounds, usable_cores(), "", "one core", "auto", "PyTorch 0", "best, workers", "per core",
      "ratio", "auto/core");
}

void print_loader_row(const LoaderResult& result) {
  const bool has_workers = result.our_auto != result.our_core;
  std::printf(
      "%-28s %12s %12s %12s %12s %3s %9s %7s %10s\n", result.line.title.c_str(),
      shown(result.line, result.our_core).c_str(), shown(result.line, result.our_auto).c_str(),
      shown(result.line, result.peer_core).c_str(), shown(result.line, result.peer_best).c_str(),
      result.peer_best == nullptr ? "-" : std::to_string(result.peer_best->workers).c_str(),
      times_text(times_as_fast(result.our_core, result.peer_core)).c_str(),
      times_text(times_as_fast(result.our_auto, result.peer_best)).c_str(),
      has_workers ? ratio_text(times_as_fast(result.our_auto, result.our_core)).c_str() : "-");
  std::fflush(stdout);
}

void print_loader_json(const LoaderResult& result, const std::vector<LoaderContender>& contenders) {
  nlohmann::json entries = nlohmann::json::array();
  for (const auto& contender : contenders) {
    if (is_of(result.line, contender)) {
      entries.push_back({{"side", contender.ours ? "ours" : "pytorch"},
                         {"workers", contender.workers < 0 ? nlohmann::json("auto")
                                                           : nlohmann::json(contender.workers)},
                         {"samples", contender.samples},
                         {"rounds_s", contender.seconds},
                         {"median_s", as_json(contender.median_seconds())},
                         {"missing", contender.missing}});
    }
  }
  const nlohmann::json row = {
      {"bench", "loader"},
      {"row", result.line.ours},
      {"cores", usable_cores()},
      {"arch", architecture()},
      {"sides", entries},
      {"auto_over_one_core", as_json(times_as_fast(result.our_auto, result.our_core))},
      {"per_core", as_json(times_as_fast(result.our_core, result.peer_core))},
      {"ratio", as_json(times_as_fast(result.our_auto, result.peer_best))}};
  std::printf("%s\n", row.dump().c_str());
  std::fflush(stdout);
}

}  // namespace lockstep::bench
