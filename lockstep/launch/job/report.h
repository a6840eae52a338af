// The last words of a failed job: the root cause, on one screen.
#pragma once

#include <string>
#include <vector>

#include "lockstep/launch/protocol/failure.h"

namespace lockstep::launch {

// "rank 3 (local rank 1) on node 1 'hostb', pid 4711".
std::string describe_worker(const Failure& failure, bool several_nodes);

// "exit code 3" or "SIGSEGV (signal 11)".
std::string describe_end(const Failure& failure);

// The first failure is the root cause. It is printed last, where a terminal shows it. The others
// get one line each, at most ten; those that were merely stopped share one line.
std::string format_report(const std::vector<Failure>& failures, bool several_nodes);

// One line for each worker that failed without being told to stop; empty if there is none. Those
// that stopped in order did not fail.
std::string list_failures(const std::vector<Failure>& failures, bool several_nodes);

// Lines of a worker's output, or frames of its traceback, that a report shows.
inline constexpr std::size_t kTailLines = 15;

// The frames nearest to the fault: the first ones of a C++ backtrace ("#0 ..."), with demangled
// names, or the last ones of a Python traceback.
std::string innermost_frames(const std::string& traceback, std::size_t lines);

// The last `lines` lines of `text` without control characters. A line that was rewritten with
// carriage returns (a progress bar) is shown in its last state. Lines are cut at 300 characters.
std::string last_lines(const std::string& text, std::size_t lines);

}  // namespace lockstep::launch
