#include "lockstep/base/text/text.h"

#include <charconv>

namespace lockstep {

std::optional<std::int64_t> parse_int(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) {
    return std::nullopt;
  }
  return value;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const auto at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(at + 1);
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    joined += i == 0 ? "" : separator;
    joined += parts[i];
  }
  return joined;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string counted(std::int64_t count, std::string_view name) {
  const auto* const ending = count == 1 ? "" : name.ends_with('s') ? "es" : "s";
  return std::to_string(count) + " " + std::string(name) + ending;
}

std::string join_numbers(const std::vector<int>& numbers) {
  std::vector<std::string> parts;
  parts.reserve(numbers.size());
  for (const int number : numbers) {
    parts.push_back(std::to_string(number));
  }
  return join(parts, ", ");
}

}  // namespace lockstep
