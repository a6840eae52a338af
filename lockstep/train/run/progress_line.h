// How far a run is, on one line. These are texts alone; progress_writer.h writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/train/run/gpu_use.h"

namespace lockstep::train {

struct Progress {
  std::string phase;       // "epoch", or what is done else: "validation".
  std::int64_t epoch = 1;  // From 1 on.
  std::int64_t epochs = 1;
  std::int64_t step = 0;  // Steps of this epoch that are done.
  std::int64_t steps = 0;
  std::optional<double> seconds_left = {};  // Until the end of the whole run.
  std::optional<double> loss = {};
  std::optional<double> top1 = {};  // Percent.
  std::optional<double> lr = {};
  std::optional<double> samples_per_second = {};  // All ranks together.
  std::string unit = "img";                       // What a sample is called.
  std::optional<double> data_wait = {};           // Share of the time, 0 to 1.
  std::optional<double> communication_wait = {};
  std::optional<std::uint64_t> memory_bytes = {};
  std::optional<GpuUse> gpu = {};
};

struct LineStyle {
  int width = 80;
  bool color = false;
};

// With a bar, never wider than `width`: what does not fit is shortened, then the bar goes, then the
// rest is shortened more and left out, the least important first. Colors take no width.
std::string progress_line(const Progress& progress, const LineStyle& style);

// A part of a line in several lengths. The higher `drop_order`, the earlier it is shortened or left
// out.
struct LinePart {
  std::string text;
  std::string brief = {};  // Empty: it is not shortened.
  int drop_order = 0;
  std::string briefest = {};  // Where all others are brief, and it is still too long.
};
// The parts with `between` them, never wider than `width` if there are several: what does not fit
// is shortened, then left out.
std::string fitted_line(std::vector<LinePart> parts, int width, const std::string& between = " ");

// For files and pipes: no bar, nothing shortened, whatever the width.
std::string plain_line(const Progress& progress);

// "0:07", "1:02:03", "3d 04:00".
std::string clock_text(double seconds);
// Four digits at most: "87.5", "1234", "12.3k", "4.56M".
std::string short_number(double number);
// "512 MiB", "1.5 GiB": as base's size_text(), without a fraction that nobody needs.
std::string short_size(std::uint64_t bytes);

}  // namespace lockstep::train
