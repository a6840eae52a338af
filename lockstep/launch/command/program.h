// Finds out what to execute before anything is started.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/environment.h"
#include "lockstep/launch/command/options.h"

namespace lockstep::launch {

struct Program {
  std::string path;                    // What is executed.
  std::vector<std::string> arguments;  // argv, the name included.
};

// `*.py` and modules run with the active Python: $PYTHON_EXEC as in torchrun, else that of
// $VIRTUAL_ENV, else python3 in $PATH. Everything else is executed directly, never through a shell.
// Throws UsageError if it does not exist, is a directory or may not be executed.
Program find_program(const RunOptions& options, const Environment& environment);

// The file that `name` means: itself if it holds a slash, else the first executable of that
// name in $PATH; empty if there is none.
std::string find_executable(const std::string& name, const Environment& environment);

}  // namespace lockstep::launch
