#include "lockstep/data/workers/spread_threads.h"

#include <sched.h>

namespace lockstep::data {

int present_core() { return ::sched_getcpu(); }

void spread_thread(int number, int core) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // Fails where there are more cores than the set has room for.
  if (core < 0 || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    return;
  }
  const int count = CPU_COUNT(&allowed);
  if (count < 2) {
    return;
  }
  int target = core;
  for (int left = number % count + 1; left > 0;) {
    target = (target + 1) % CPU_SETSIZE;
    left -= CPU_ISSET(target, &allowed) ? 1 : 0;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(target, &one);
  if (::sched_setaffinity(0, sizeof one, &one) == 0) {
    ::sched_setaffinity(0, sizeof allowed, &allowed);
  }
}

}  // namespace lockstep::data
