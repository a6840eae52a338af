#include "tests/shm/memory_cgroup.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace lockstep::shm::testing {
namespace {

namespace fs = std::filesystem;

bool write(const fs::path& file, const std::string& text) {
  std::ofstream out(file);
  out << text << std::flush;
  return out.good();
}

// This process's own, by version: "7:memory:/a/b" or "0::/a/b".
std::string own_path(const std::string& controller) {
  std::ifstream in("/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (line.substr(first + 1, second - first - 1) == controller) {
      return line.substr(second + 1);
    }
  }
  return "/";
}

}  // namespace

MemoryCgroup::MemoryCgroup(std::size_t limit_bytes) {
  const fs::path first = "/sys/fs/cgroup/memory";
  if (fs::exists(first / "memory.limit_in_bytes")) {
    why_not_ = make(first.string() + own_path("memory"), "memory.limit_in_bytes", limit_bytes);
    return;
  }
  // A cgroup of the second version has processes or children with limits: look for one above.
  std::string path = own_path("");
  why_not_ = "no cgroups at /sys/fs/cgroup";
  while (true) {
    const fs::path parent = "/sys/fs/cgroup" + path;
    std::string controllers;
    std::getline(std::ifstream(parent / "cgroup.subtree_control"), controllers);
    if (controllers.find("memory") != std::string::npos) {
      why_not_ = make(parent, "memory.max", limit_bytes);
      return;
    }
    if (path.size() <= 1) {
      return;
    }
    why_not_ = parent.string() + " gives its children no limits of memory";
    path.erase(std::max<std::size_t>(path.find_last_of('/'), 1));
  }
}

std::string MemoryCgroup::make(const fs::path& parent, const char* limit_file, std::size_t bytes) {
  folder_ = parent / ("lockstep-test-" + std::to_string(::getpid()));
  std::error_code error;
  if (!fs::create_directory(folder_, error)) {
    const std::string where = folder_.string();
    folder_.clear();
    return where + ": " + (error ? error.message() : "it is there already");
  }
  return write(folder_ / limit_file, std::to_string(bytes)) ? "" : "its limit cannot be set";
}

MemoryCgroup::~MemoryCgroup() {
  if (!folder_.empty()) {
    ::rmdir(folder_.c_str());
  }
}

void MemoryCgroup::enter() const {
  if (!write(folder_ / "cgroup.procs", "0")) {
    throw std::runtime_error("entering " + folder_.string());
  }
}

int MemoryCgroup::kills() const {
  for (const char* file : {"memory.oom_control", "memory.events"}) {
    std::ifstream in(folder_ / file);
    std::string name;
    int value = 0;
    while (in >> name >> value) {
      if (name == "oom_kill") {
        return value;
      }
    }
  }
  throw std::runtime_error(folder_.string() + " does not say how many were killed");
}

}  // namespace lockstep::shm::testing
