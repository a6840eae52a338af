#include "lockstep/data/readers/bad_files.h"

#include <algorithm>

#include "lockstep/base/text.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kExamplesOfAReason = 5;
constexpr std::size_t kReasons = 20;
constexpr std::size_t kReasonCharacters = 200;

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
  const auto place = static_cast<std::size_t>(index);
  if (place >= seen_.size()) {
    seen_.resize(std::max(place + 1, seen_.size() * 2));
  }
  if (seen_[place]) {
    return;
  }
  seen_[place] = true;
  ++count_;
  std::string kind = kind_of(reason, path);
  if (reasons_.size() >= kReasons && !reasons_.contains(kind)) {
    kind = other_reasons();
  }
  Reason& entry = reasons_[kind];
  ++entry.count;
  if (entry.examples.size() < kExamplesOfAReason) {
    entry.examples.push_back("'" + path + "': " + reason.substr(0, kReasonCharacters));
  }
  if (max_bad_ >= 0 && count_ > max_bad_) {
    throw IoError(summary_locked() + "\nexpected at most " + std::to_string(max_bad_) +
                  " (max_bad); mend or remove the files, or raise max_bad");
  }
}

std::int64_t BadFiles::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

std::string BadFiles::summary() const {
  const std::lock_guard lock(mutex_);
  return summary_locked();
}

std::string BadFiles::summary_locked() const {
  if (count_ == 0) {
    return "";
  }
  std::string text = std::to_string(count_) +
                     (count_ == 1 ? " file cannot be read" : " files cannot be read") +
                     "; other samples take their places";
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

}  // namespace lockstep::data
