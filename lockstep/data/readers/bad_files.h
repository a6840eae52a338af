// Files of a data set that could not be read: how many, which and why.
//
// Training goes on without them. Each is counted once, however often it is met, and memory does not
// grow with their number: some two bytes for each file of the set, some paths, some reasons.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::data {

// An IoError that is no fault of the file which was being read: the process has too many files
// open, a server is away, a function of the user's fails. The file is not bad, and no other one
// takes its place.
class NotTheFile : public IoError {
 public:
  using IoError::IoError;
};

class BadFiles {
 public:
  // More than `max_bad` are an error; 0: the first one is; -1: any number may be bad.
  explicit BadFiles(std::int64_t max_bad = -1) : max_bad_(max_bad) {}

  // Threads may call it at the same time. Throws IoError with the summary if there are too many.
  void add(std::int64_t index, const std::string& path, const std::string& reason);

  [[nodiscard]] std::int64_t count() const;

  // The first of `index`, `index` + 1, ..., around the end of `size`, that is not known to be bad;
  // nothing if all are.
  [[nodiscard]] std::optional<std::int64_t> first_not_bad(std::int64_t index,
                                                          std::int64_t size) const;

  // One line that ends with `consequence`, and one for each reason with its number and first paths;
  // "" if there are none.
  [[nodiscard]] std::string summary(
      const std::string& consequence = "; other samples take their places") const;
  // The files that the summary names, each with what is wrong with it: the first of each reason.
  [[nodiscard]] std::vector<std::string> listed() const;

  // For other processes that read the same set: what this one has met, as bytes, and what another
  // one has, so that a file which both have met counts once. Neither looks at `max_bad`. Throws
  // IoError if the bytes are no others' packed().
  [[nodiscard]] std::string packed() const;
  void merge(std::string_view packed);
  // Throws as add() does if there are too many, those that were merged included.
  void require_few() const;

  [[nodiscard]] std::int64_t max_bad() const { return max_bad_; }

 private:
  struct Reason {
    std::uint8_t number = 0;  // From 1 on.
    std::int64_t count = 0;
    std::vector<std::string> examples;
  };

  void record(std::int64_t index, const std::string& path, const std::string& reason);
  Reason& reason_of(std::string kind);
  [[nodiscard]] bool is_marked(std::int64_t index) const;
  bool mark(std::int64_t index, Reason& reason);  // False if it was marked before.
  void require_few_locked() const;
  [[nodiscard]] std::string summary_locked(const std::string& consequence) const;

  const std::int64_t max_bad_;
  mutable std::mutex mutex_;
  std::int64_t count_ = 0;
  std::vector<std::uint64_t> seen_;    // A bit for each index: words of ones are skipped at once.
  std::vector<std::uint8_t> numbers_;  // The reason's, for each index; 0: none.
  std::map<std::string, Reason> reasons_;
};

// The first usable file after `index`, wrapping around at `size`: one that is not known to be bad,
// and that `may_replace` accepts; an empty `may_replace` accepts all. Nothing if there is none.
std::optional<std::int64_t> first_replacement(std::int64_t index, std::int64_t size,
                                              const BadFiles& bad,
                                              const std::function<bool(std::int64_t)>& may_replace);

// Reads sample `index` of `size` with `read(i)`; if that throws IoError, the file is recorded and
// the first good one after it, wrapping around, is read with `replace(i)` in its place. A file that
// is known to be bad is not read again as a replacement, so a long run of bad files costs little.
// Which sample comes is the same on every rank and in every epoch if `replace` depends on nothing
// but the file. Throws IoError if no file can be read, or there are too many bad ones, and every
// NotTheFile. `path(i)` names a file. Only where `may_replace(i)` holds may a file take the place
// of another one; empty: each may.
template <class Read, class Replace, class Path>
auto read_or_replace(std::int64_t index, std::int64_t size, BadFiles& bad, const Read& read,
                     const Replace& replace, const Path& path,
                     const std::function<bool(std::int64_t)>& may_replace = {}) {
  try {
    return read(index);
  } catch (const NotTheFile&) {
    throw;
  } catch (const IoError& error) {
    bad.add(index, path(index), error.what());
  }
  while (const auto other = first_replacement(index, size, bad, may_replace)) {
    try {
      return replace(*other);
    } catch (const NotTheFile&) {
      throw;
    } catch (const IoError& error) {
      bad.add(*other, path(*other), error.what());
    }
  }
  throw IoError("reading sample " + std::to_string(index) + ": none of " +
                (may_replace ? "its part's" : std::to_string(size)) +
                " files can be read, expected at least one\n" + bad.summary(""));
}

}  // namespace lockstep::data
