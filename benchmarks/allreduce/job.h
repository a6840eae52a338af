// What the two programs whose ranks `lockstep bench allreduce` measures have in common: what they
// are told, what they reduce and what must come out. Plain C, for the Open MPI side.
//
// Each rank reads its orders from one pipe that all share: the benchmark writes an order as often
// as there are ranks, and since an order is carried out together, none can take another's. Ranks
// that wait sleep in read(), so the sides do not disturb each other. The end of the file is the end
// of the job. After each order rank 0 prints one line of JSON.
#pragma once

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

enum { kOrderBytes = 48, kPatternPeriod = 8 };

struct Order {
  char contender[16];
  size_t bytes;
  int repetitions;
};

// 1 for an order, 0 at the end of the job, -1 for anything else.
static inline int read_order(int fd, struct Order* order) {
  char text[kOrderBytes + 1];
  const ssize_t got = read(fd, text, kOrderBytes);
  if (got == 0) {
    return 0;
  }
  text[got > 0 ? got : 0] = '\0';
  const int fields =
      sscanf(text, "%15s %zu %d", order->contender, &order->bytes, &order->repetitions);
  return got == kOrderBytes && fields == 3 ? 1 : -1;
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
