#include "lockstep/base/text/nearest.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace lockstep {
namespace {

constexpr std::size_t kLeastPrefix = 3;

// "--Batch_Size" as "batch-size".
std::string plain(std::string_view name) {
  const auto first = std::min(name.find_first_not_of('-'), name.size());
  std::string text(name.substr(first));
  for (char& c : text) {
    c = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return text;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    names.push_back(it->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

// Optimal string alignment: three rows of the usual table, because a swap looks two rows back.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    last[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::optional<std::string> nearest_name(std::string_view word,
                                        const std::vector<std::string>& candidates) {
  const std::string wanted = plain(word);
  std::optional<std::string> near;
  std::optional<std::string> longer;
  std::size_t least = (wanted.size() + 2) / 3 + 1;
  for (const auto& candidate : candidates) {
    const std::string name = plain(candidate);
    const std::size_t longest = std::max(wanted.size(), name.size());
    const std::size_t shortest = std::min(wanted.size(), name.size());
    if (longest - shortest < least) {  // Else the distance is greater.
      const std::size_t distance = edit_distance(wanted, name);
      // A name of which nothing is left is not what was meant.
      if (distance < least && distance < longest) {
        least = distance;
        near = candidate;
      }
    }
    if (wanted.size() >= kLeastPrefix && name.starts_with(wanted) &&
        (!longer || candidate.size() < longer->size())) {
      longer = candidate;
    }
  }
  return near ? near : longer;
}

std::optional<std::string> nearest_path(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path found;
  const fs::path whole(path);
  for (auto part = whole.begin(); part != whole.end(); ++part) {
    if (fs::exists(found / *part, error)) {
      found /= *part;
      continue;
    }
    const auto near = nearest_name(part->string(), names_in(found.empty() ? "." : found));
    if (!near) {
      return std::nullopt;
    }
    found /= *near;
    while (++part != whole.end()) {
      found /= *part;
    }
    return fs::exists(found, error) ? std::optional(found.string()) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace lockstep
