#include "lockstep/data/workers/spread_threads.h"

#include <gmock/gmock.h>
#include <sched.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

namespace lockstep::data {
namespace {

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) {
      cores.push_back(core);
    }
  }
  return cores;
}

// The kernel may move the thread right away again, so the most frequent one of many tries counts.
int core_of_thread(int number, int core) {
  std::vector<int> seen(CPU_SETSIZE);
  for (int i = 0; i < 40; ++i) {
    std::thread([&] {
      spread_thread(number, core);
      ++seen[static_cast<std::size_t>(present_core())];
    }).join();
  }
  return static_cast<int>(std::ranges::max_element(seen) - seen.begin());
}

TEST(SpreadThread, EachBeginsOnACoreOfItsOwnAndTheLastOnTheOwners) {
  const std::vector<int> cores = allowed_cores();
  std::set<int> used;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    used.insert(core_of_thread(static_cast<int>(i), cores[0]));
  }
  EXPECT_EQ(used.size(), cores.size());
  EXPECT_EQ(core_of_thread(static_cast<int>(cores.size()) - 1, cores[0]), cores[0]);
  EXPECT_EQ(core_of_thread(static_cast<int>(2 * cores.size()) - 1, cores[0]), cores[0]);
}

TEST(SpreadThread, LeavesTheThreadFree) {
  const std::vector<int> before = allowed_cores();
  std::thread([&] {
    spread_thread(0, present_core());
    EXPECT_EQ(allowed_cores(), before);
    spread_thread(1000, -1);  // As where the system does not tell the core.
    EXPECT_EQ(allowed_cores(), before);
  }).join();
}

}  // namespace
}  // namespace lockstep::data
