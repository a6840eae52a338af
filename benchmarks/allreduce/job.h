// What the two programs whose ranks `lockstep bench allreduce` measures have in common: what they
// are told, what they reduce and what must come out. Plain C, for the Open MPI job, too.
#pragma once

#include <stddef.h>

#include "benchmarks/orders.h"

enum { kPatternPeriod = 8 };

struct Order {
  char contender[16];
  size_t bytes;
  int repetitions;
};

// 1 for an order, 0 at the end of the job, -1 for anything else.
static inline int read_order(int fd, struct Order* order) {
  char line[kOrderBytes + 1];
  const int got = read_order_line(fd, line);
  if (got <= 0) {
    return got;
  }
  const int fields =
      sscanf(line, "%15s %zu %d", order->contender, &order->bytes, &order->repetitions);
  return fields == 3 ? 1 : -1;
}

// Every operation has values of its own, so that a result left over from the one before is wrong.
// All sums are integers below 2^24: exact in float32, whatever the order of the ranks.
static inline float pattern(int rank, long operation, size_t element) {
  return (float)((rank + 1) * (1 + operation % 61) + (long)(element % kPatternPeriod));
}

static inline float pattern_sum(int ranks, long operation, size_t element) {
  return (float)((long)ranks * (ranks + 1) / 2 * (1 + operation % 61) +
                 ranks * (long)(element % kPatternPeriod));
}

static inline void fill(float* data, size_t count, int rank, long operation) {
  float period[kPatternPeriod];
  for (size_t i = 0; i < kPatternPeriod; ++i) {
    period[i] = pattern(rank, operation, i);
  }
  for (size_t i = 0; i < count; ++i) {
    data[i] = period[i % kPatternPeriod];
  }
}
