// Reads the host lists that schedulers hand to a job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep::cluster {

// Slurm's compressed form, in its order: "n[01-03,07],login" has five hosts.
// Throws UsageError for unbalanced brackets or a range that is no range.
std::vector<std::string> expand_slurm_hosts(std::string_view list);

// Slurm's "2(x3),1": the tasks of each node, here {2, 2, 2, 1}. Throws UsageError.
std::vector<int> expand_slurm_tasks(std::string_view list);

// One host a line, as in PBS_NODEFILE; repeated lines are kept, empty ones are not.
std::vector<std::string> read_node_file(const std::string& path);

// The lines of PBS_NODEFILE: the tasks that pbsdsh starts. Throws UsageError where there is no such
// file; `otherwise` completes its hint: "pass on a copy, or ...".
std::vector<std::string> pbsdsh_slots(const Environment& environment, const std::string& otherwise);

}  // namespace lockstep::cluster
