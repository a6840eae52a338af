// `lockstep run`: from arguments to exit code.
#pragma once

#include <string>
#include <vector>

namespace lockstep::launch {

// `folder` is where this program and its siblings are. Throws UsageError before anything is
// started; later errors are printed and become the exit code.
// `store_program` serves the store; empty: lockstep-store, if the folder has it.
int run(const std::vector<std::string>& arguments, const std::string& folder,
        const std::string& store_program = "");

}  // namespace lockstep::launch
