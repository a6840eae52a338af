// Files that processes share: whoever uses one has it locked with flock(), and the last one removes
// it. After a crash nobody did.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// How the names of caches of images begin (data/cache). One in memory is in /dev/shm.
inline constexpr std::string_view kImageCachePrefix = "lockstep-images-";

// Whether the path still names the file that was opened as `fd`: it may be removed, and made anew
// by another process, before a lock is taken.
bool is_still_named(int fd, const std::string& path);

// Removes the files of this user that begin so and that nobody has locked, but for one.
void remove_abandoned_files(const std::string& folder, std::string_view prefix,
                            std::string_view keep = "");

}  // namespace lockstep
