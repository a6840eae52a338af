// --output: the folder that runs have their folders in.
#pragma once

#include <string>

namespace lockstep::train {

// Throws UsageError if `output` is a file, or lies below one: no run could have a folder there.
void require_output_folder(const std::string& output);

// Why no folder can be made in `output`, in words; empty if one can. Looks at the nearest folder
// that is there, and writes nothing.
std::string why_no_folder_in(const std::string& output);

}  // namespace lockstep::train
