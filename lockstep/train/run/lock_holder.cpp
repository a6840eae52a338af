#include "lockstep/train/run/lock_holder.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "lockstep/base/text/text.h"

namespace lockstep::train {

// "1: FLOCK  ADVISORY  WRITE 4711 fd:01:131075 0 EOF", and "1: -> FLOCK ..." for one that waits.
pid_t lock_holder(int file, const std::string& list) {
  struct stat status{};
  if (::fstat(file, &status) != 0) {
    return 0;
  }
  char wanted[64];
  std::snprintf(wanted, sizeof wanted, "%02x:%02x:%llu", major(status.st_dev), minor(status.st_dev),
                static_cast<unsigned long long>(status.st_ino));
  std::ifstream lines(list);
  for (std::string line; std::getline(lines, line);) {
    std::string number;
    std::string kind;
    std::string advisory;
    std::string access;
    std::string pid;
    std::string place;
    std::istringstream(line) >> number >> kind >> advisory >> access >> pid >> place;
    if (kind == "FLOCK" && place == wanted) {
      return static_cast<pid_t>(std::max<std::int64_t>(0, parse_int(pid).value_or(0)));
    }
  }
  return 0;
}

}  // namespace lockstep::train
