// `lockstep run`: from arguments to exit code.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launch {

struct RunSetup {
  std::string folder;              // Where this program and its siblings are.
  std::string store_program = {};  // Serves the store; empty: lockstep-store, if the folder has it.
  bool worker_names_logs = false;  // LogOptions::named_by_worker, unless --log-dir is given.
};

// Throws UsageError before anything is started; later errors are printed and become the exit
// code. docs/reference/exit-codes.md lists those.
int run(const std::vector<std::string>& arguments, const RunSetup& setup);

}  // namespace lockstep::launch
