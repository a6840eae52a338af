#include "lockstep/checkpoint/file_system.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>

namespace lockstep::checkpoint {

int FileSystem::open_folder(const std::string& path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int FileSystem::lock(int folder) { return ::flock(folder, LOCK_EX | LOCK_NB); }

int FileSystem::unlock(int folder) { return ::flock(folder, LOCK_UN); }

int FileSystem::create(int folder, const std::string& name) {
  return ::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

ssize_t FileSystem::write(int file, std::span<const std::byte> bytes) {
  return ::write(file, bytes.data(), bytes.size());
}

int FileSystem::fsync(int file) { return ::fsync(file); }

int FileSystem::link(int folder, const std::string& from, const std::string& to) {
  return ::linkat(folder, from.c_str(), folder, to.c_str(), 0);
}

int FileSystem::rename(int folder, const std::string& from, const std::string& to) {
  return ::renameat(folder, from.c_str(), folder, to.c_str());
}

int FileSystem::unlink(int folder, const std::string& name) {
  return ::unlinkat(folder, name.c_str(), 0);
}

}  // namespace lockstep::checkpoint
