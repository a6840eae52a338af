// The operations on files that saving a checkpoint is made of, so that tests can make each fail.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace lockstep::checkpoint {

// Every function is the system call of its name: -1 and errno, or the result. Names are relative to
// a folder's descriptor, and links are not followed.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual int open_folder(const std::string& path);
  // For one process at a time; EWOULDBLOCK if another has it. It ends with unlock(), or when the
  // last process that has the descriptor closes it.
  virtual int lock(int folder);
  virtual int unlock(int folder);
  // A new file that its owner alone may read and write; EEXIST if the name is taken.
  virtual int create(int folder, const std::string& name);
  virtual ssize_t write(int file, std::span<const std::byte> bytes);
  virtual int fsync(int file);
  virtual int link(int folder, const std::string& from, const std::string& to);
  virtual int rename(int folder, const std::string& from, const std::string& to);
  virtual int unlink(int folder, const std::string& name);
};

}  // namespace lockstep::checkpoint
