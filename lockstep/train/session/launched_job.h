// What a launcher tells the ranks of a job: which job it is, and whether it starts them again.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace lockstep::train {

// How often a launcher has started the ranks of this job again: more than 0 must go on.
int restart_count();
// Whether the launcher restarts ranks that fail.
bool restarts_allowed();
// Tells this job from all others, in each of its attempts: the launcher's id of it, and the folder
// that the launcher made for it alone, which is in the paths of its error files. Where a launcher
// has none, its process, which must be the parent of this one.
std::string this_job();
// When the launcher made the folder of the job's first attempt; nothing if there is none.
std::optional<std::chrono::system_clock::time_point> first_attempt_began();

}  // namespace lockstep::train
