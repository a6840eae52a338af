#include "lockstep/train/run/run_names.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "lockstep/base/text/text.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kMostOfAName = 50;
// Written before a start has read what it goes on from.
constexpr std::string_view kOfAStart[] = {"job", "log", "restarts"};

std::string safe(const std::string& name, const std::string& otherwise) {
  std::string safe;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_';
    safe += plain ? c : '-';
  }
  safe.erase(0, std::min(safe.find_first_not_of(".-"), safe.size()));
  safe.resize(std::min(safe.size(), kMostOfAName));
  safe.erase(safe.find_last_not_of(".-") + 1);
  return safe.empty() ? otherwise : safe;
}

// "imagenet" of "/data/imagenet/", and of "." in that folder.
std::string last_part(const std::string& path) {
  std::error_code error;
  std::filesystem::path whole(path);
  const auto last = whole.filename();
  if (last == "." || last == "..") {
    whole = std::filesystem::canonical(whole, error);
  }
  if (!whole.has_filename()) {
    whole = whole.parent_path();
  }
  return whole.extension() == ".csv" ? whole.stem() : whole.filename();
}

// The number of a run: 1 for "name", n for "name-n" with n from 2 on, 0 for other names.
std::int64_t number_of(std::string_view folder, std::string_view name) {
  if (folder == name) {
    return 1;
  }
  if (!folder.starts_with(name) || folder[name.size()] != '-') {
    return 0;
  }
  const auto digits = folder.substr(name.size() + 1);
  const auto number = parse_int(digits);
  return number && *number >= 2 && digits.front() != '0' ? *number : 0;
}

// 0 if there is none.
std::int64_t newest_number(const std::string& root, const std::string& name) {
  for (const auto number : numbers_of_folders(root, name)) {
    if (!is_left_over(root + "/" + numbered_run(name, number))) {
      return number;
    }
  }
  return 0;
}

}  // namespace

std::string run_name(const std::string& data, const std::string& model) {
  return safe(last_part(data), "data") + "-" + safe(model, "model");
}

std::string numbered_run(const std::string& name, std::int64_t number) {
  return number <= 1 ? name : name + "-" + std::to_string(number);
}

std::set<std::int64_t, std::greater<>> numbers_of_folders(const std::string& root,
                                                          const std::string& name) {
  std::set<std::int64_t, std::greater<>> numbers;
  std::error_code error;
  for (std::filesystem::directory_iterator it(root, error), end; !error && it != end;
       it.increment(error)) {
    numbers.insert(number_of(it->path().filename().string(), name));
  }
  numbers.erase(0);
  return numbers;
}

bool is_left_over(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(std::filesystem::symlink_status(folder, error))) {
    return false;
  }
  std::filesystem::directory_iterator it(folder, error);
  for (const std::filesystem::directory_iterator end; !error && it != end; it.increment(error)) {
    const auto name = it->path().filename().string();
    if (std::ranges::find(kOfAStart, name) == std::end(kOfAStart)) {
      return false;
    }
  }
  return !error;
}

std::string newest_run(const std::string& root, const std::string& name) {
  const std::int64_t number = newest_number(root, name);
  return number == 0 ? "" : root + "/" + numbered_run(name, number);
}

std::string next_run(const std::string& root, const std::string& name) {
  return root + "/" + numbered_run(name, newest_number(root, name) + 1);
}

}  // namespace lockstep::train
