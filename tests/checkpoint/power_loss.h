// A disk that can lose power: it logs what a process does to the files of one folder, and says what
// may be left at any moment of it.
//
// The rules are POSIX's, not those of one kind file system, which keeps more:
//   - bytes that no fsync() of their file followed may be there, or in part, or be zeros;
//   - names that no fsync() of the folder followed (create, link, rename, unlink) may each be there
//     or not, whatever came before or behind them. One rename is all or nothing.
#pragma once

#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/cursor.h"
#include "lockstep/checkpoint/file_system.h"

namespace lockstep::checkpoint {

using FileNumber = std::size_t;  // A file's, whatever names it has.

// What is on the disk after a loss of power: names and contents.
using LeftFiles = std::map<std::string, std::string>;

class PowerLossFiles : public FileSystem {
 public:
  struct Options {
    bool syncs_files =
        true;  // False: their fsync() does nothing, as if the caller had left it out.
    bool syncs_folder = true;
  };
  PowerLossFiles() = default;
  explicit PowerLossFiles(const Options& options) : options_(options) {}

  int open_folder(const std::string& path) override {
    folder_ = FileSystem::open_folder(path);
    return folder_;
  }
  int create(int folder, const std::string& name) override {
    const int file = FileSystem::create(folder, name);
    if (file >= 0) {
      open_[file] = files_;
      names({{name, files_++}});
    }
    return file;
  }
  ssize_t write(int file, std::span<const std::byte> bytes) override {
    const ssize_t count = FileSystem::write(file, bytes);
    if (count > 0) {
      const auto written = as_text(bytes.first(static_cast<std::size_t>(count)));
      log_.push_back({.file = open_.at(file), .bytes = std::string(written)});
    }
    return count;
  }
  int fsync(int file) override {
    const int result = FileSystem::fsync(file);
    const bool is_folder = file == folder_;
    if (result == 0 && (is_folder ? options_.syncs_folder : options_.syncs_files)) {
      log_.push_back(
          {.file = is_folder ? 0 : open_.at(file), .is_sync = true, .is_of_folder = is_folder});
    }
    return result;
  }
  int link(int folder, const std::string& from, const std::string& to) override {
    const int result = FileSystem::link(folder, from, to);
    if (result == 0) {
      names({{to, now_.at(from)}});
    }
    return result;
  }
  int rename(int folder, const std::string& from, const std::string& to) override {
    const int result = FileSystem::rename(folder, from, to);
    if (result == 0 && now_.at(from) != now_[to]) {  // Two names of one file both stay.
      names({{to, now_.at(from)}, {from, std::nullopt}});
    }
    return result;
  }
  int unlink(int folder, const std::string& name) override {
    const int result = FileSystem::unlink(folder, name);
    if (result == 0) {
      names({{name, std::nullopt}});
    }
    return result;
  }

  // How many operations there were so far.
  [[nodiscard]] std::size_t operations() const { return log_.size(); }

  // What may be left if the power goes after this many operations: everything the rules allow where
  // that is little, else `most` random ones, with none and all of what was not synced among them.
  template <class Visit>
  void each_left(std::size_t operations, std::size_t most, const Visit& visit) const {
    const Moment moment = at(operations);
    const std::size_t loose = moment.loose.size();
    const bool is_little = loose < 8 && (std::size_t{1} << loose) <= most;
    const std::size_t count = is_little ? std::size_t{1} << loose : most;
    std::mt19937_64 random(operations);
    for (std::size_t i = 0; i < count; ++i) {
      // The first has no loose name, the second has all.
      std::uint64_t kept = is_little || i == 0 ? i : i == 1 ? ~std::uint64_t{0} : random();
      Names names = moment.names;
      for (const Change& change : moment.loose) {
        if ((kept & 1) != 0) {
          apply(change, names);
        }
        kept >>= 1;
      }
      for (const Tail tail : {Tail::kNone, Tail::kHalf, Tail::kZeros, Tail::kWhole}) {
        LeftFiles left;
        for (const auto& [name, file] : names) {
          if (file) {
            left[name] = content(moment, *file, tail);
          }
        }
        visit(left);
      }
    }
  }

 private:
  using Names = std::map<std::string, std::optional<FileNumber>>;
  using Change = std::vector<std::pair<std::string, std::optional<FileNumber>>>;
  // Bytes of a file, a sync, or names that change together.
  struct Operation {
    FileNumber file = 0;
    std::string bytes = {};
    bool is_sync = false;
    bool is_of_folder = false;
    Change change = {};
  };
  struct Moment {
    Names names;                // On the disk.
    std::vector<Change> loose;  // Perhaps on the disk.
    std::map<FileNumber, std::string> written;
    std::map<FileNumber, std::size_t> synced;  // How many of a file's bytes.
  };
  // What is left of the bytes that were not synced.
  enum class Tail { kNone, kHalf, kZeros, kWhole };

  void names(Change change) {
    apply(change, now_);
    log_.push_back({.change = std::move(change)});
  }

  static void apply(const Change& change, Names& names) {
    for (const auto& [name, file] : change) {
      names[name] = file;
    }
  }

  [[nodiscard]] Moment at(std::size_t operations) const {
    Moment moment;
    for (std::size_t i = 0; i < operations; ++i) {
      const Operation& operation = log_[i];
      if (operation.is_sync && operation.is_of_folder) {
        for (const Change& change : moment.loose) {
          apply(change, moment.names);
        }
        moment.loose.clear();
      } else if (operation.is_sync) {
        moment.synced[operation.file] = moment.written[operation.file].size();
      } else if (!operation.change.empty()) {
        moment.loose.push_back(operation.change);
      } else {
        moment.written[operation.file] += operation.bytes;
      }
    }
    return moment;
  }

  static std::string content(const Moment& moment, FileNumber file, Tail tail) {
    const auto written = moment.written.find(file);
    const auto synced = moment.synced.find(file);
    std::string text = written == moment.written.end() ? "" : written->second;
    const std::size_t safe = synced == moment.synced.end() ? 0 : synced->second;
    if (tail == Tail::kNone || tail == Tail::kHalf) {
      text.resize(tail == Tail::kNone ? safe : safe + (text.size() - safe) / 2);
    } else if (tail == Tail::kZeros) {
      text.replace(safe, std::string::npos, text.size() - safe, '\0');
    }
    return text;
  }

  Options options_;
  int folder_ = -1;
  FileNumber files_ = 0;
  std::map<int, FileNumber> open_;  // By descriptor; those of closed files are used again.
  Names now_;                       // What the process sees.
  std::vector<Operation> log_;
};

}  // namespace lockstep::checkpoint
