#include "lockstep/train/run/progress_line.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "lockstep/base/text/text.h"

namespace lockstep::train {
namespace {

constexpr int kLeastBar = 6;  // With its brackets.
constexpr int kWidestBar = 24;
// The drop_order of what goes before anything is shortened beyond its brief.
constexpr int kSpare = 12;
constexpr const char* kBarColor = "\x1b[36m";
constexpr const char* kNoColor = "\x1b[0m";

std::string formatted(const char* format, double number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

std::string percent(double share) { return formatted("%.0f%%", 100.0 * share); }

std::string of(std::int64_t done, std::int64_t all) {
  return std::to_string(done) + "/" + std::to_string(all);
}

// "512M" for "512 MiB".
std::string brief_size(std::uint64_t bytes) {
  std::string text = short_size(bytes);
  const auto space = text.find(' ');
  return space == std::string::npos ? text : text.substr(0, space) + text[space + 1];
}

// "3d11h" for "3d 11:45": of days, minutes say nothing.
std::string brief_clock(double seconds) {
  const auto text = clock_text(seconds);
  const auto space = text.find(' ');
  return space == std::string::npos ? text
                                    : text.substr(0, space) + text.substr(space + 1, 2) + "h";
}

// "gpu 97% 23 GiB", or "gpu97% 23G"; empty if the driver tells neither.
std::string gpu_text(const GpuUse& gpu, bool is_brief) {
  std::string text = "gpu";
  if (gpu.utilization) {
    text += (is_brief ? "" : " ") + std::to_string(*gpu.utilization) + "%";
  }
  if (gpu.memory_bytes) {
    text += " " + (is_brief ? brief_size(*gpu.memory_bytes) : short_size(*gpu.memory_bytes));
  }
  return text == "gpu" ? "" : text;
}

// In the order in which they stand. The bar comes after the first.
std::vector<LinePart> fields_of(const Progress& p) {
  std::vector<LinePart> fields;
  const auto add = [&](std::string text, std::string brief, int drop_order,
                       std::string briefest = {}) {
    if (!text.empty()) {
      fields.push_back({std::move(text), std::move(brief), drop_order, std::move(briefest)});
    }
  };
  const std::string phase = p.phase.empty() ? "epoch" : p.phase;
  add(phase + " " + of(p.epoch, p.epochs), of(p.epoch, p.epochs), 2);
  add(of(p.step, p.steps), of(p.step, p.steps), 0);
  if (p.seconds_left) {
    add("ETA " + clock_text(*p.seconds_left), clock_text(*p.seconds_left), 3,
        brief_clock(*p.seconds_left));
  }
  if (p.loss) {
    add("loss " + formatted("%.4f", *p.loss), "loss " + formatted("%.3f", *p.loss), 1,
        "loss " + formatted("%.2f", *p.loss));
  }
  if (p.top1) {
    add("top1 " + formatted("%.2f", *p.top1), "top1 " + formatted("%.1f", *p.top1), 4,
        formatted("%.1f%%", *p.top1));
  }
  if (p.lr) {
    add("lr " + formatted("%.4g", *p.lr), "lr " + formatted("%.2g", *p.lr), 9);
  }
  if (p.samples_per_second) {
    const std::string rate = short_number(*p.samples_per_second);
    add(rate + " " + p.unit + "/s", rate + "/s", 5);
  }
  if (p.data_wait) {
    add("data " + percent(*p.data_wait), "d" + percent(*p.data_wait), 7);
  }
  if (p.communication_wait) {
    add("comm " + percent(*p.communication_wait), "c" + percent(*p.communication_wait), 8);
  }
  if (p.memory_bytes) {
    // Where the GPU's memory is known, it is what may run out.
    const bool is_spare = p.gpu && p.gpu->memory_bytes;
    add("mem " + short_size(*p.memory_bytes), brief_size(*p.memory_bytes), is_spare ? kSpare : 10);
  }
  if (p.gpu) {
    add(gpu_text(*p.gpu, false), gpu_text(*p.gpu, true), 6);
    if (p.gpu->watts) {
      const auto watts = formatted("%.0f", *p.gpu->watts);
      add(watts + " W", watts + "W", 11);
    }
  }
  return fields;
}

std::size_t width_of(const std::vector<LinePart>& fields, std::size_t between = 1) {
  std::size_t width = 0;
  for (const auto& field : fields) {
    width += field.text.size() + between;
  }
  return width == 0 ? 0 : width - between;
}

template <class Eligible>
std::vector<LinePart>::iterator least_important(std::vector<LinePart>& fields,
                                                const Eligible& eligible) {
  auto worst = fields.end();
  for (auto field = fields.begin(); field != fields.end(); ++field) {
    if (eligible(*field) && (worst == fields.end() || field->drop_order > worst->drop_order)) {
      worst = field;
    }
  }
  return worst;
}

// To LinePart::brief or LinePart::briefest.
void shorten(std::vector<LinePart>& fields, std::size_t width, std::size_t between = 1,
             std::string LinePart::* shorter = &LinePart::brief) {
  while (width_of(fields, between) > width) {
    const auto field = least_important(fields, [&](const LinePart& f) {
      return !(f.*shorter).empty() && (f.*shorter).size() < f.text.size();
    });
    if (field == fields.end()) {
      return;
    }
    field->text = (*field).*shorter;
  }
}

// Those of this drop_order or more, if it must be.
void leave_out(std::vector<LinePart>& fields, std::size_t width, std::size_t between = 1,
               int drop_order = 0) {
  while (width_of(fields, between) > width && fields.size() > 1) {
    const auto field =
        least_important(fields, [&](const LinePart& f) { return f.drop_order >= drop_order; });
    if (field == fields.end()) {
      return;
    }
    fields.erase(field);
  }
}

// "[====>   ]", of this width.
std::string bar(double share, int width) {
  const int inside = width - 2;
  const int full = std::clamp(static_cast<int>(share * inside), 0, inside);
  std::string text(static_cast<std::size_t>(full), '=');
  if (full < inside) {
    text += '>';
    text.resize(static_cast<std::size_t>(inside), ' ');
  }
  return "[" + text + "]";
}

}  // namespace

std::string clock_text(double seconds) {
  // Nothing here is worth an exception, and a number that is none must not be converted.
  if (!(seconds >= 0) || seconds > 1e9) {
    return "?";
  }
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  const auto days = whole / 86400;
  const auto hours = whole / 3600 % 24;
  const auto minutes = whole / 60 % 60;
  char text[64];
  if (days > 0) {
    std::snprintf(text, sizeof text, "%lldd %02lld:%02lld", static_cast<long long>(days),
                  static_cast<long long>(hours), static_cast<long long>(minutes));
  } else if (hours > 0) {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", static_cast<long long>(hours),
                  static_cast<long long>(minutes), static_cast<long long>(whole % 60));
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld", static_cast<long long>(minutes),
                  static_cast<long long>(whole % 60));
  }
  return text;
}

std::string short_number(double number) {
  const char* unit = "";
  for (const char* next : {"k", "M", "G", "T"}) {
    if (!(std::fabs(number) >= 9999.5)) {
      break;
    }
    number /= 1000;
    unit = next;
  }
  const double size = std::fabs(number);
  return formatted(size < 9.995 ? "%.2f" : size < 99.95 ? "%.1f" : "%.0f", number) + unit;
}

std::string short_size(std::uint64_t bytes) {
  double size = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (size < 1023.5) {
      break;
    }
    size /= 1024;
    unit = next;
  }
  const bool whole = size >= 99.95 || unit[0] == 'B' || size == std::floor(size);
  return formatted(whole ? "%.0f " : "%.1f ", size) + unit;
}

std::string progress_line(const Progress& progress, const LineStyle& style) {
  const auto width = static_cast<std::size_t>(std::max(style.width, 1));
  auto fields = fields_of(progress);
  const bool has_bar = width > kLeastBar + 1;
  const std::size_t for_fields = has_bar ? width - kLeastBar - 1 : width;
  shorten(fields, for_fields);
  int bar_width = 0;
  if (has_bar && width_of(fields) <= for_fields) {
    bar_width = std::min(static_cast<int>(width - width_of(fields)) - 1, kWidestBar);
  } else {
    leave_out(fields, width, 1, kSpare);
    shorten(fields, width, 1, &LinePart::briefest);
    leave_out(fields, width);
  }
  std::string line = fields.front().text.substr(0, width);
  if (bar_width > 0) {
    const double share = progress.steps > 0 ? static_cast<double>(progress.step) /
                                                  static_cast<double>(progress.steps)
                                            : 0;
    line += " " + std::string(style.color ? kBarColor : "") + bar(share, bar_width) +
            (style.color ? kNoColor : "");
  }
  for (std::size_t i = 1; i < fields.size(); ++i) {
    line += " " + fields[i].text;
  }
  return line;
}

std::string fitted_line(std::vector<LinePart> parts, int width, const std::string& between) {
  const auto columns = static_cast<std::size_t>(std::max(width, 1));
  shorten(parts, columns, between.size());
  leave_out(parts, columns, between.size());
  std::vector<std::string> texts;
  for (const auto& part : parts) {
    texts.push_back(part.text);
  }
  return join(texts, between);
}

std::string plain_line(const Progress& progress) {
  std::vector<std::string> texts;
  for (const auto& field : fields_of(progress)) {
    texts.push_back(field.text);
  }
  return join(texts, "  ");
}

}  // namespace lockstep::train
