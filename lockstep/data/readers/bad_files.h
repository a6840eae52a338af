// Files of a data set that could not be read: how many, which and why.
//
// Training goes on without them. Each is counted once, however often it is met, and memory does not
// grow with their number: a bit for each file of the set, some paths, some reasons.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::data {

class BadFiles {
 public:
  // More than `max_bad` are an error; -1: any number may be bad.
  explicit BadFiles(std::int64_t max_bad = -1) : max_bad_(max_bad) {}

  // Threads may call it at the same time. Throws IoError with the summary if there are too many.
  void add(std::int64_t index, const std::string& path, const std::string& reason);

  [[nodiscard]] std::int64_t count() const;

  // One line, and one for each reason with its number and first paths; "" if there are none.
  [[nodiscard]] std::string summary() const;

 private:
  struct Reason {
    std::int64_t count = 0;
    std::vector<std::string> examples;
  };

  [[nodiscard]] std::string summary_locked() const;

  const std::int64_t max_bad_;
  mutable std::mutex mutex_;
  std::int64_t count_ = 0;
  std::vector<bool> seen_;  // By index.
  std::map<std::string, Reason> reasons_;
};

// Reads sample `index` of `size` with `read(i)`; if that throws IoError, the file is recorded and
// the sample behind it is read in its place, and so on, around the end. The same on every rank and
// in every epoch, because it depends on nothing but the files. Throws IoError if no file can be
// read, or there are too many bad ones. `path(i)` names a file.
template <class Read, class Path>
auto read_or_replace(std::int64_t index, std::int64_t size, BadFiles& bad, const Read& read,
                     const Path& path) {
  for (std::int64_t step = 0; step < size; ++step) {
    const std::int64_t candidate = (index + step) % size;
    try {
      return read(candidate);
    } catch (const IoError& error) {
      bad.add(candidate, path(candidate), error.what());
    }
  }
  throw IoError("reading sample " + std::to_string(index) + ": none of " + std::to_string(size) +
                " files can be read, expected at least one\n" + bad.summary());
}

}  // namespace lockstep::data
