// How much memory this process has, and how much it may still take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

struct FreeMemory {
  std::uint64_t bytes = 0;
  std::string limited_by;  // "this machine" or "the cgroup /a/b (limit 2.0 GiB)", for messages.
};

// What the machine can give without swapping, or what is left below the tightest limit of
// this process's cgroups (v1 or v2), whichever is less; page cache counts as free. `root` is where
// /proc and /sys are looked for.
FreeMemory free_memory(const std::string& root = "");

// What of this process is in memory now; nothing where /proc does not tell. `root` as above.
std::optional<std::uint64_t> resident_bytes(const std::string& root = "");

// "1.5 GiB", "12.0 KiB", "100 bytes": how messages write a size.
std::string size_text(std::uint64_t bytes);

}  // namespace lockstep
