// The file of an image cache: taken over or made, mapped into memory, shared and grown.
//
// While anybody uses the file, all hold its lock together; who makes it anew holds it alone. Room
// on the disk is reserved before it is written, and pixels are written with pwrite(): a full disk
// is an answer then, not a signal.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <string>

#include "lockstep/base/fd.h"
#include "lockstep/data/cache/cache_file.h"

namespace lockstep::data {

struct ImageCacheOptions {
  std::string path;
  std::uint64_t key = 0;    // A file of another key is not taken over but written anew.
  std::int64_t images = 0;  // Indices are smaller.
  std::uint64_t bytes = 0;  // What pixels will take, about; reserved at once.
  // The disk is memory: the last process that closes the file removes it, and it grows only where
  // this process may take as much. So it is made only where there is as much.
  bool in_memory = false;
};

// Thread-safe once it is made.
class MappedCacheFile {
 public:
  // Takes over what is in the file, or writes a new one. Throws IoError naming the path if there is
  // no room, if the file belongs to another user, or if it is damaged while others use it.
  explicit MappedCacheFile(ImageCacheOptions options);
  // Removes a file in memory that nobody else uses.
  ~MappedCacheFile();
  MappedCacheFile(const MappedCacheFile&) = delete;
  MappedCacheFile& operator=(const MappedCacheFile&) = delete;

  [[nodiscard]] const ImageCacheOptions& options() const { return options_; }
  [[nodiscard]] CacheHeader& header() const;
  [[nodiscard]] CacheEntry& entry(std::int64_t index) const;
  // All that the file may become. Nothing behind capacity() may be touched.
  [[nodiscard]] std::span<const std::byte> bytes() const { return {memory_, limit_}; }
  [[nodiscard]] std::uint64_t capacity() const;
  [[nodiscard]] std::uint64_t used_bytes() const;
  [[nodiscard]] std::uint64_t limit() const { return limit_; }

  // Makes sure that the disk can hold the file up to `end`. Throws IoError if it cannot.
  void reserve(std::uint64_t end);
  // Throws IoError.
  void write(std::uint64_t offset, std::span<const std::uint8_t> bytes) const;

 private:
  void open_file();
  void take_over_or_create();
  [[nodiscard]] bool is_usable();
  void require_memory(std::uint64_t bytes) const;
  void create();
  void map();
  void remove_if_unused() const;
  void raise_used() const;
  // After a lock was not given; `if_held` is what to say if that is because others hold it.
  [[noreturn]] void refuse_lock(const std::string& if_held) const;
  [[noreturn]] void refuse(const std::string& what) const;

  ImageCacheOptions options_;
  std::uint64_t limit_ = 0;
  UniqueFd fd_;
  const pid_t owner_ = ::getpid();
  std::byte* memory_ = nullptr;
};

}  // namespace lockstep::data
