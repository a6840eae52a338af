// What processes that share a growing file do to it: locks with an end, room, whole writes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace lockstep::data {

// Others hold a lock while they make a file or reserve room. That takes a moment, or minutes for
// hundreds of GiB on a disk that fills them with zeros: the time starts anew while the file grows.
inline constexpr std::chrono::milliseconds kLockTime{60'000};

// flock() with LOCK_SH or LOCK_EX. False, with errno, if it is not free after `time` without
// growth.
bool lock_file(int fd, int kind, std::chrono::milliseconds time = kLockTime);

// Locks the first byte for whoever has opened the file as `fd`, until that is closed, apart from
// what lock_file() locks. False as above.
bool lock_growing(int fd, std::chrono::milliseconds time = kLockTime);

// "NFS" and such for the f_type of statfs() if hosts may share the file system: what one host has
// mapped and what another writes need not be the same there. Nothing for local disks, and for FUSE
// and 9p, which may be either.
std::optional<std::string_view> network_file_system(std::uint64_t type);

// Reserves room from one place of the file to another. Returns 0 or errno; some of it may have been
// reserved then.
int allocate(int fd, std::uint64_t from, std::uint64_t to);

// Writes everything, through EINTR and short writes. False, with errno, if the disk is full.
bool write_at(int fd, std::uint64_t offset, std::span<const std::uint8_t> bytes);

}  // namespace lockstep::data
