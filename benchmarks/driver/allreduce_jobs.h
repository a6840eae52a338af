// The jobs that `lockstep bench allreduce` lets take turns, for one number of ranks.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/driver/allreduce_result.h"
#include "benchmarks/driver/rank_group.h"

namespace lockstep::bench {

struct AllreduceJobsOptions {
  int ranks = 2;
  std::size_t largest_bytes = 0;
  std::string mpirun;   // Empty: Open MPI takes no part.
  std::string spoiled;  // A contender whose result is made wrong.
};

struct AllreduceOrder {
  std::string contender;
  std::size_t bytes = 0;
  int repetitions = 1;
};

class AllreduceJobs {
 public:
  explicit AllreduceJobs(const AllreduceJobsOptions& options);

  // Null if that one takes no part.
  [[nodiscard]] RankGroup* job_of(Contender contender) const;
  // Seconds of each repetition, as rank 0 saw them. Blocks until all ranks are done; throws Error
  // if the job ends before, is too slow, or did not check the result of every repetition on every
  // rank.
  [[nodiscard]] std::vector<double> measure(RankGroup& job, const AllreduceOrder& order) const;
  // Waits for a regular end of all jobs; without it they are killed.
  void finish();

 private:
  int ranks_;
  std::map<std::string, std::unique_ptr<RankGroup>> jobs_;
};

}  // namespace lockstep::bench
