#include "lockstep/train/run/closing_summary.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "lockstep/base/text/text.h"
#include "lockstep/train/run/progress_line.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kLabelWidth = 11;

std::string with_decimals(const char* format, double number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

std::string line(std::string label, const std::string& text) {
  label.resize(std::max(label.size() + 1, kLabelWidth), ' ');
  return "  " + label + text + "\n";
}

// Empty parts, those of what is not known, are left out.
std::string list(std::vector<std::string> parts) {
  std::erase(parts, "");
  return join(parts, ", ");
}

std::string accuracy(const ClosingSummary& s) {
  return list({s.top1 ? "Acc@1 " + with_decimals("%.2f %%", *s.top1) : "",
               s.top5 ? "Acc@5 " + with_decimals("%.2f %%", *s.top5) : "",
               s.loss ? "loss " + with_decimals("%.4f", *s.loss) : ""});
}

std::string best_accuracy(const ClosingSummary& s) {
  return s.best_top1 ? "Acc@1 " + with_decimals("%.2f %%", *s.best_top1) +
                           (s.best_epoch ? " in epoch " + std::to_string(*s.best_epoch) : "")
                     : "";
}

std::string test_accuracy(const ClosingSummary& s) {
  return list({s.test_top1 ? "Acc@1 " + with_decimals("%.2f %%", *s.test_top1) : "",
               s.test_top5 ? "Acc@5 " + with_decimals("%.2f %%", *s.test_top5) : "",
               s.test_loss ? "loss " + with_decimals("%.4f", *s.test_loss) : ""});
}

long hundredths(double share) { return std::lround(100.0 * share); }

// What is shown adds up to 100.
std::string where_the_time_went(const ClosingSummary& s) {
  std::vector<std::string> parts;
  long rest = 100;
  const auto add = [&](const std::string& name, const std::optional<double>& share) {
    if (share) {
      parts.push_back(name + " " + std::to_string(hundredths(*share)) + " %");
      rest -= hundredths(*share);
    }
  };
  add("compute", s.compute);
  add("communication", s.communication);
  add("data wait", s.data_wait);
  if (parts.size() == 3 && rest > 0) {
    parts.push_back("other " + std::to_string(rest) + " %");
  }
  return join(parts, ", ");
}

std::string mean_gpu(const GpuUse& gpu) {
  std::string memory = gpu.memory_bytes ? short_size(*gpu.memory_bytes) : "";
  if (gpu.memory_bytes && gpu.memory_total) {
    memory += " of " + short_size(*gpu.memory_total);
  }
  return list({gpu.utilization ? std::to_string(*gpu.utilization) + " % busy" : "", memory,
               gpu.watts ? with_decimals("%.0f W", *gpu.watts) : ""});
}

std::string seconds_text(double seconds) {
  return seconds < 60 ? with_decimals("%.1f s", seconds) : clock_text(seconds);
}

}  // namespace

std::string closing_text(const ClosingSummary& s) {
  std::string text = s.headline + "\n";
  const auto add = [&](const char* label, const std::string& content) {
    text += content.empty() ? "" : line(label, content);
  };
  add("accuracy", accuracy(s));
  add("best", best_accuracy(s));
  add("test", test_accuracy(s));
  add("time", list({seconds_text(s.wall_seconds) + (s.time_note.empty() ? "" : " " + s.time_note),
                    s.samples_per_second ? short_number(*s.samples_per_second) + " " + s.unit +
                                               "/s on " + counted(s.ranks, "rank")
                                         : ""}));
  add("spent on", where_the_time_went(s));
  add("GPU", s.gpu ? mean_gpu(*s.gpu) : "");
  if (s.restarts > 0) {
    add("restarts", std::to_string(s.restarts) + ", which took " + seconds_text(s.restart_seconds));
  }
  const auto add_all = [&](const char* label, const std::vector<std::string>& lines) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      text += line(i == 0 ? label : "", lines[i]);
    }
  };
  add_all("data", s.data);
  add_all("files", s.files);
  add_all("warnings", s.warnings);
  add("next", s.next_command);
  return text;
}

}  // namespace lockstep::train
