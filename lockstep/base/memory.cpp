#include "lockstep/base/memory.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

// The value behind `name` in a file of "name value" lines; 0 where there is none.
std::uint64_t field_of(const fs::path& file, const std::string& name) {
  std::ifstream in(file);
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with(name + " ")) {
      return static_cast<std::uint64_t>(parse_int(trim(line.substr(name.size()))).value_or(0));
    }
  }
  return 0;
}

std::uint64_t machine_memory(const std::string& root) {
  std::ifstream in(root + "/proc/meminfo");
  std::string name;
  std::uint64_t kilobytes = 0;
  std::string unit;
  while (in >> name >> kilobytes && std::getline(in, unit)) {
    if (name == "MemAvailable:") {
      return kilobytes * 1024;
    }
  }
  return std::numeric_limits<std::uint64_t>::max();  // Unknown: let the kernel decide.
}

std::string own_cgroup(const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with("0::")) {
      return line.substr(3);
    }
  }
  return "/";
}

}  // namespace

FreeMemory free_memory(const std::string& root) {
  FreeMemory least{machine_memory(root), "this machine"};
  const std::string top = root + "/sys/fs/cgroup";
  std::string group = own_cgroup(root);
  while (true) {
    const fs::path folder = top + group;
    const auto limit = number_in(folder / "memory.max");  // "max" is no number.
    const auto used = number_in(folder / "memory.current");
    if (limit && used) {
      const auto cache = field_of(folder / "memory.stat", "inactive_file");
      const auto taken = *used > cache ? *used - cache : 0;
      const auto left = *limit > taken ? *limit - taken : 0;
      if (left < least.bytes) {
        least = {left, "the cgroup " + group + " (limit " + size_text(*limit) + ")"};
      }
    }
    if (group.size() <= 1) {
      return least;
    }
    group.erase(group.find_last_of('/'));
  }
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) {
    return std::to_string(bytes) + " bytes";
  }
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  value /= 1024;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", value, kUnits[unit]);
  return text.data();
}

}  // namespace lockstep
