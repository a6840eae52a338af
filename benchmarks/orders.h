// How ranks that `lockstep bench` measures are told what to do. Plain C, for peers that are.
//
// The ranks of a job read their orders, lines of words, from one pipe that all share: the benchmark
// writes an order as often as there are ranks, and since an order is carried out together, none can
// take another's. Ranks that wait sleep in read(), so the jobs of a benchmark do not disturb each
// other. The end of the file is the end of the job. After each order rank 0 prints one line of
// JSON.
#pragma once

#include <stdio.h>
#include <unistd.h>

enum { kOrderBytes = 48 };  // In every order: the line is filled up with blanks.

// 1 for an order, 0 at the end of the job, -1 for anything else.
static inline int read_order_line(int fd, char line[kOrderBytes + 1]) {
  const ssize_t got = read(fd, line, kOrderBytes);
  line[got > 0 ? got : 0] = '\0';
  return got == kOrderBytes ? 1 : got == 0 ? 0 : -1;
}
