// The rows that `lockstep bench loader` measures, and how they are shown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "benchmarks/driver/loader_jobs.h"

namespace lockstep::bench {

// A line of the table: a row of ours beside one of the peer's, "" if it has none.
struct LoaderLine {
  std::string title;
  std::string ours;
  std::string peer;
  bool is_time = false;  // Milliseconds instead of samples in a second.
};

// Contenders that take turns with each other.
struct LoaderPart {
  std::string name;  // In --rows.
  std::vector<LoaderLine> lines;
  std::vector<int> our_workers;
  std::vector<int> peer_workers;
};

const std::vector<LoaderPart>& loader_parts();

std::vector<LoaderContender> contenders_of(const LoaderPart& part);

struct LoaderResult {
  LoaderLine line;
  const LoaderContender* our_core = nullptr;
  const LoaderContender* our_auto = nullptr;   // That of one core where there are no workers.
  const LoaderContender* peer_core = nullptr;  // Null, as the next, where the peer has no such row.
  const LoaderContender* peer_best = nullptr;
};

// Points into `contenders`.
LoaderResult result_of(const LoaderLine& line, const std::vector<LoaderContender>& contenders);

// How many times as fast one is as the other: the median over the rounds, in each of which both
// had the same machine. Nothing if one took no part.
std::optional<double> times_as_fast(const LoaderContender* one, const LoaderContender* other);

void print_loader_head(int rounds);
void print_loader_row(const LoaderResult& result);
void print_loader_json(const LoaderResult& result, const std::vector<LoaderContender>& contenders);

}  // namespace lockstep::bench
