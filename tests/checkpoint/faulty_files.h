// A file system of which one operation fails.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>

#include "lockstep/checkpoint/file_system.h"

namespace lockstep::checkpoint {

enum class Fault { kNoSpace, kInputOutput, kInterrupted, kShortWrite, kKill, kKillAfter };

// The operation number `at` has the fault; those before and behind it work.
class FaultyFiles : public FileSystem {
 public:
  explicit FaultyFiles(int at = -1, Fault fault = Fault::kNoSpace) : at_(at), fault_(fault) {}

  [[nodiscard]] int operations() const { return operations_; }
  [[nodiscard]] bool was_write() const { return was_write_; }  // What had the fault.
  [[nodiscard]] bool was_unlink() const { return was_unlink_; }

  int open_folder(const std::string& path) override {
    return run([&] { return FileSystem::open_folder(path); });
  }
  int lock(int folder) override {
    return run([&] { return FileSystem::lock(folder); });
  }
  int create(int folder, const std::string& name) override {
    return run([&] { return FileSystem::create(folder, name); });
  }
  ssize_t write(int file, std::span<const std::byte> bytes) override {
    const bool is_short = operations_ == at_ && fault_ == Fault::kShortWrite;
    was_write_ = was_write_ || operations_ == at_;
    const auto part = is_short ? bytes.first((bytes.size() + 1) / 2) : bytes;
    return run([&] { return FileSystem::write(file, part); });
  }
  int fsync(int file) override {
    return run([&] { return FileSystem::fsync(file); });
  }
  int link(int folder, const std::string& from, const std::string& to) override {
    return run([&] { return FileSystem::link(folder, from, to); });
  }
  int rename(int folder, const std::string& from, const std::string& to) override {
    return run([&] { return FileSystem::rename(folder, from, to); });
  }
  int unlink(int folder, const std::string& name) override {
    was_unlink_ = was_unlink_ || operations_ == at_;
    return run([&] { return FileSystem::unlink(folder, name); });
  }

 private:
  template <class Operation>
  auto run(const Operation& operation) -> decltype(operation()) {
    if (operations_++ != at_ || fault_ == Fault::kShortWrite) {
      return operation();
    }
    if (fault_ == Fault::kKillAfter) {
      operation();
    }
    if (fault_ == Fault::kKill || fault_ == Fault::kKillAfter) {
      ::kill(::getpid(), SIGKILL);
    }
    errno = fault_ == Fault::kNoSpace ? ENOSPC : fault_ == Fault::kInterrupted ? EINTR : EIO;
    return -1;
  }

  int at_;
  Fault fault_;
  int operations_ = 0;
  bool was_write_ = false;
  bool was_unlink_ = false;
};

}  // namespace lockstep::checkpoint
