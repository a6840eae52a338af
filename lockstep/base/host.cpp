#include "lockstep/base/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

// The smallest cpu.max (cgroup v2) from this process's group up to the root; 0 where there is none.
double cgroup_cores() {
  std::ifstream membership("/proc/self/cgroup");
  std::string line;
  std::string group;
  while (std::getline(membership, line)) {
    if (line.starts_with("0::")) {
      group = line.substr(3);
    }
  }
  double cores = 0;
  std::filesystem::path path = "/sys/fs/cgroup" + group;
  while (path.string().starts_with("/sys/fs/cgroup")) {
    std::ifstream file(path / "cpu.max");
    std::string quota;
    double period = 0;
    if (file >> quota >> period && quota != "max" && period > 0) {
      const double here = std::strtod(quota.c_str(), nullptr) / period;
      cores = cores == 0 ? here : std::min(cores, here);
    }
    if (path == "/sys/fs/cgroup" || !path.has_relative_path()) {
      break;
    }
    path = path.parent_path();
  }
  return cores;
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) {
    return "localhost";
  }
  return name;
}

std::string host_id() {
  if (const char* chosen = std::getenv("LOCKSTEP_HOST_ID"); chosen != nullptr && *chosen != '\0') {
    return chosen;
  }
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  std::error_code error;
  const std::string network = std::filesystem::read_symlink("/proc/self/ns/net", error).string();
  const std::string pids = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
  return boot + "/" + network + "/" + pids + "/" + std::to_string(::getuid());
}

int usable_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  int cores = 1;
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) {
    cores = CPU_COUNT(&mask);
  } else {
    cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  }
  const double quota = cgroup_cores();
  if (quota > 0) {
    cores = std::min(cores, static_cast<int>(std::ceil(quota)));
  }
  return std::max(cores, 1);
}

}  // namespace lockstep
