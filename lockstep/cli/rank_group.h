// One side of a benchmark: a job whose ranks wait until they are told what to measure.
//
// It starts once and then takes one order at a time, so that sides can take turns without paying
// for their start. benchmarks/allreduce/job.h says what the ranks do.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"

namespace lockstep::cli {

struct RankOrder {
  std::string contender;
  std::size_t bytes = 0;
  int repetitions = 1;
};

class RankGroup {
 public:
  // Its launcher, program and so on. "{orders}" among them becomes where the ranks get their
  // orders.
  RankGroup(int ranks, std::vector<std::string> command);
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;
  ~RankGroup();  // Ends it, if finish() did not.

  // Seconds of each repetition, as rank 0 saw them. Blocks until all ranks are done; throws Error
  // with what they wrote to stderr if the job ends before, is too slow, or did not check the result
  // of every repetition on every rank.
  std::vector<double> measure(const RankOrder& order);

  // Tells the ranks that it is over and waits for them. Throws Error if the job failed.
  void finish();

 private:
  std::string next_line(Deadline deadline);
  // The job's exit code; kills it at the deadline.
  int wait_for_end(Deadline deadline);
  [[noreturn]] void fail(const std::string& what);

  int ranks_;
  std::vector<std::string> command_;
  Pipe orders_;
  Pipe lines_;
  UniqueFd errors_;  // A file in memory.
  pid_t pid_ = -1;
  std::string unread_;
};

}  // namespace lockstep::cli
