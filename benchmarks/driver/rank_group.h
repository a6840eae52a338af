// One contender of a benchmark: a job whose ranks wait until they are told what to measure.
//
// It starts once and then takes one order at a time, so that contenders take turns without paying
// for their start. benchmarks/orders.h says how the ranks get it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/fd.h"

namespace lockstep::bench {

class RankGroup {
 public:
  // Its launcher, program and so on. "{orders}" among them becomes where the ranks get their
  // orders.
  RankGroup(int ranks, std::vector<std::string> command);
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;
  ~RankGroup();  // Ends it, if finish() did not.

  // Words that all ranks get. Does not wait: groups that were told one after the other work at the
  // same time.
  void tell(const std::string& order);
  // The JSON that rank 0 printed when the order was carried out. Blocks until then; throws Error
  // with what the ranks wrote to stderr if the job ends before or is too slow.
  std::string answer();
  // Throws Error: the ranks `what`, and what they wrote to stderr.
  [[noreturn]] void reject(const std::string& what);

  // Tells the ranks that it is over and waits for them. Throws Error if the job failed.
  void finish();

 private:
  std::string next_line(Deadline deadline);
  // The job's exit code; kills it at the deadline.
  int wait_for_end(Deadline deadline);

  int ranks_;
  std::vector<std::string> command_;
  Pipe orders_;
  Pipe lines_;
  UniqueFd errors_;  // A file in memory.
  pid_t pid_ = -1;
  std::string unread_;
};

}  // namespace lockstep::bench
