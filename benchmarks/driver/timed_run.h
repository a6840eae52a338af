// Runs a command and takes its time, for benchmarks.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace lockstep::bench {

// Wall-clock seconds from start to end, output thrown away. Throws Error with the end of
// its stderr if the command fails or is not done within the limit.
double timed_run(const std::vector<std::string>& command, std::chrono::seconds limit);

double median(std::vector<double> values);

}  // namespace lockstep::bench
