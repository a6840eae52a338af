#include "benchmarks/driver/result_text.h"

#include <sys/utsname.h>

#include <cstdio>

namespace lockstep::bench {

std::string architecture() {
  utsname names{};
  ::uname(&names);
  return names.machine;
}

std::string number_text(std::optional<double> value, const char* unit) {
  if (!value) {
    return "-";
  }
  char text[32];
  std::snprintf(text, sizeof text, *value < 100 ? "%.1f%s" : "%.0f%s", *value, unit);
  return text;
}

std::string ratio_text(std::optional<double> value) {
  if (!value) {
    return "-";
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", *value);
  return text;
}

}  // namespace lockstep::bench
