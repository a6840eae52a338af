// Files that processes share: whoever uses one has it locked with flock(), and the last one removes
// it. After a crash nobody did.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// Caches of images in memory (data/cache).
inline constexpr const char* kMemoryCacheFolder = "/dev/shm";
inline constexpr std::string_view kMemoryCachePrefix = "lockstep-ram-images-";

// Whether the path still names the file that was opened as `fd`: it may be removed, and made anew
// by another process, before a lock is taken.
bool is_still_named(int fd, const std::string& path);

// Removes this user's files whose names begin with `prefix` and that nobody has locked, except
// `keep`. Errors are ignored.
void remove_abandoned_files(const std::string& folder, std::string_view prefix,
                            std::string_view keep = "");

}  // namespace lockstep
