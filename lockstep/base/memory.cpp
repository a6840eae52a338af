#include "lockstep/base/memory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>

#include "lockstep/base/text/text.h"

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

// Where the two versions of cgroups keep the same three numbers.
struct Version {
  const char* controller;  // In /proc/self/cgroup.
  const char* mount;
  const char* limit;
  const char* used;
  const char* cache;
};
constexpr std::array kVersions{
    Version{"", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"},
    Version{"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
            "total_inactive_file"}};

// "0::/a/b" or "7:memory:/a/b"; "/" if the controller is not there.
std::string own_cgroup(const std::string& root, const std::string& controller) {
  std::ifstream in(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    const auto fields = split(line, ':');
    if (fields.size() < 3) {
      continue;
    }
    const auto controllers = split(fields[1], ',');
    if (std::find(controllers.begin(), controllers.end(), controller) != controllers.end()) {
      return line.substr(fields[0].size() + fields[1].size() + 2);
    }
  }
  return "/";
}

// The tightest of this group and those above it.
void look_at_cgroups(const std::string& root, const Version& version, FreeMemory& least) {
  std::string group = own_cgroup(root, version.controller);
  while (true) {
    const fs::path folder = root + version.mount + group;
    const auto limit = number_in(folder / version.limit);  // "max" is no number.
    const auto used = number_in(folder / version.used);
    if (limit && used) {
      const auto cache = field_of(folder / "memory.stat", version.cache);
      const auto taken = *used > cache ? *used - cache : 0;
      const auto left = *limit > taken ? *limit - taken : 0;
      if (left < least.bytes) {
        least = {left, "the cgroup " + group + " (limit " + size_text(*limit) + ")"};
      }
    }
    if (group.size() <= 1) {
      return;
    }
    group.erase(std::max<std::size_t>(group.find_last_of('/'), 1));
  }
}

}  // namespace

FreeMemory free_memory(const std::string& root) {
  FreeMemory least{machine_memory(root), "this machine"};
  for (const auto& version : kVersions) {
    look_at_cgroups(root, version, least);
  }
  return least;
}

std::optional<std::uint64_t> resident_bytes(const std::string& root) {
  std::ifstream file(root + "/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  if (!(file >> size >> resident)) {
    return std::nullopt;
  }
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
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
