#include "lockstep/data/readers/bad_files.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/text.h"
#include "lockstep/base/text/utf8.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kExamplesOfAReason = 5;
constexpr std::size_t kReasons = 20;
constexpr std::size_t kReasonCharacters = 200;
constexpr std::size_t kWordBits = 64;

const std::string& other_reasons() {
  static const std::string text = "other reasons";
  return text;
}

// Numbers in a message ("ends in row 17 of 375") would make a reason of each file.
std::string kind_of(const std::string& reason, const std::string& path) {
  std::string kind = reason;
  if (const std::size_t at = kind.find(path); at != std::string::npos && !path.empty()) {
    kind.replace(at, path.size(), "...");
  }
  std::string short_kind;
  for (const char c : kind.substr(0, kReasonCharacters)) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit || short_kind.empty() || short_kind.back() != 'N') {
      short_kind.push_back(digit ? 'N' : c);
    }
  }
  return short_kind;
}

}  // namespace

void BadFiles::add(std::int64_t index, const std::string& path, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  record(index, path, reason);
  // Too many stay too many: a loop that goes on after the error hears of it again.
  if (max_bad_ == 0) {
    throw IoError(printable(valid_utf8(reason), "\n", "?") +
                  "; mend or remove the file, or set max_bad (--max-bad) to have some replaced");
  }
  require_few_locked();
}

void BadFiles::require_few() const {
  const std::lock_guard lock(mutex_);
  require_few_locked();
}

void BadFiles::require_few_locked() const {
  if (max_bad_ >= 0 && count_ > max_bad_) {
    throw IoError(summary_locked("") + "\nexpected at most " + std::to_string(max_bad_) +
                  " (max_bad); mend or remove the files, or raise max_bad (--max-bad)");
  }
}

BadFiles::Reason& BadFiles::reason_of(std::string kind) {
  if (reasons_.size() >= kReasons && !reasons_.contains(kind)) {
    kind = other_reasons();
  }
  Reason& reason = reasons_[kind];
  if (reason.number == 0) {
    reason.number = static_cast<std::uint8_t>(reasons_.size());
  }
  return reason;
}

bool BadFiles::mark(std::int64_t index, Reason& reason) {
  const auto place = static_cast<std::size_t>(index);
  const std::size_t word = place / kWordBits;
  const std::uint64_t bit = std::uint64_t{1} << (place % kWordBits);
  if (word >= seen_.size()) {
    seen_.resize(std::max(word + 1, seen_.size() * 2));
    numbers_.resize(seen_.size() * kWordBits);
  }
  if ((seen_[word] & bit) != 0) {
    return false;
  }
  seen_[word] |= bit;
  numbers_[place] = reason.number;
  ++count_;
  ++reason.count;
  return true;
}

bool BadFiles::is_marked(std::int64_t index) const {
  const auto place = static_cast<std::size_t>(index);
  return place < numbers_.size() && numbers_[place] != 0;
}

void BadFiles::record(std::int64_t index, const std::string& path, const std::string& reason) {
  if (is_marked(index)) {
    return;
  }
  Reason& entry = reason_of(printable_name(kind_of(reason, path)));
  mark(index, entry);
  if (entry.examples.size() < kExamplesOfAReason) {
    const bool is_named = reason.find(path) != std::string::npos;
    entry.examples.push_back(printable_name((is_named ? "" : "'" + path + "': ") +
                                            reason.substr(0, path.size() + kReasonCharacters)));
  }
}

// Three fields for each reason, each with a zero behind it: its kind, the indices and the examples,
// each of these with a line end behind it.
std::string BadFiles::packed() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> indices(reasons_.size() + 1);
  for (std::size_t index = 0; index < numbers_.size(); ++index) {
    if (numbers_[index] != 0) {
      indices[numbers_[index]] += std::to_string(index) + "\n";
    }
  }
  std::string bytes;
  for (const auto& [kind, reason] : reasons_) {
    bytes.append(kind).push_back('\0');
    bytes.append(indices[reason.number]).push_back('\0');
    for (const std::string& example : reason.examples) {
      bytes.append(example).push_back('\n');
    }
    bytes.push_back('\0');
  }
  return bytes;
}

void BadFiles::merge(std::string_view packed) {
  const std::lock_guard lock(mutex_);
  const auto fields = split(packed, '\0');
  for (std::size_t i = 0; i + 2 < fields.size(); i += 3) {
    std::vector<std::int64_t> news;
    for (const std::string& text : split(fields[i + 1], '\n')) {
      const auto index = parse_int(text);
      if (!text.empty() && (!index || *index < 0)) {
        throw IoError("merging bad files: there is '" + text + "', expected the index of a file");
      }
      if (index && !is_marked(*index)) {
        news.push_back(*index);
      }
    }
    if (news.empty()) {  // All are known, perhaps for other reasons: this one has no files.
      continue;
    }
    Reason& reason = reason_of(fields[i]);
    for (const std::int64_t index : news) {
      mark(index, reason);
    }
    for (const std::string& example : split(fields[i + 2], '\n')) {
      if (!example.empty() && reason.examples.size() < kExamplesOfAReason &&
          std::ranges::find(reason.examples, example) == reason.examples.end()) {
        reason.examples.push_back(example);
      }
    }
  }
}

std::int64_t BadFiles::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

std::optional<std::int64_t> BadFiles::first_not_bad(std::int64_t index, std::int64_t size) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [from, to] : {std::pair(index, size), std::pair(std::int64_t{0}, index)}) {
    auto place = static_cast<std::size_t>(from);
    while (place < static_cast<std::size_t>(to)) {
      const std::uint64_t word =
          place / kWordBits < seen_.size() ? seen_[place / kWordBits] >> (place % kWordBits) : 0;
      if ((word & 1) == 0) {
        return static_cast<std::int64_t>(place);
      }
      place += static_cast<std::size_t>(std::countr_one(word));
    }
  }
  return std::nullopt;
}

std::string BadFiles::summary(const std::string& consequence) const {
  const std::lock_guard lock(mutex_);
  return summary_locked(consequence);
}

std::vector<std::string> BadFiles::listed() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> files;
  for (const auto& [kind, reason] : reasons_) {
    files.insert(files.end(), reason.examples.begin(), reason.examples.end());
  }
  return files;
}

std::string BadFiles::summary_locked(const std::string& consequence) const {
  if (count_ == 0) {
    return "";
  }
  std::string text = std::to_string(count_) +
                     (count_ == 1 ? " file cannot be read" : " files cannot be read") + consequence;
  for (const auto& [kind, reason] : reasons_) {
    text += "\n" + std::to_string(reason.count) + ": " + kind;
    for (const std::string& example : reason.examples) {
      text += "\n  " + example;
    }
    if (reason.count > static_cast<std::int64_t>(reason.examples.size())) {
      text += "\n  ...";
    }
  }
  return text;
}

std::optional<std::int64_t> first_replacement(
    std::int64_t index, std::int64_t size, const BadFiles& bad,
    const std::function<bool(std::int64_t)>& may_replace) {
  std::int64_t passed = 0;  // How many from `index` on are none.
  while (passed < size) {
    const auto other = bad.first_not_bad((index + passed) % size, size);
    const std::int64_t distance = other ? (*other - index + size) % size : 0;
    if (!other || distance < passed) {  // Around the end, to one that was looked at before.
      return std::nullopt;
    }
    if (!may_replace || may_replace(*other)) {
      return other;
    }
    passed = distance + 1;
  }
  return std::nullopt;
}

}  // namespace lockstep::data
