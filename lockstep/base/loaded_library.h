// Which shared libraries this process has loaded, and which build of them.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// The build id that the linker gave the loaded library of this file name ("libc10.so"), in
// hexadecimal digits: another one for each build, whatever its version says. "N bytes", the size of
// its file, if it has none; empty if no such library is loaded. Reads memory, not the file.
std::string build_of_loaded_library(std::string_view file_name);

}  // namespace lockstep
