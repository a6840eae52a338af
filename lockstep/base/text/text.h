// Strict small-text helpers: numbers with no trailing garbage, splitting, joining.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// The whole of `text` as a decimal integer; nothing for "", "1x", " 1" or overflow.
std::optional<std::int64_t> parse_int(std::string_view text);

// Empty fields are kept: split("a,,b", ',') has three.
std::vector<std::string> split(std::string_view text, char separator);

std::string join(const std::vector<std::string>& parts, std::string_view separator);

std::string_view trim(std::string_view text);

bool contains(std::string_view text, std::string_view part);

// "1 rank", "2 ranks", "3 classes": the name is that of one.
std::string counted(std::int64_t count, std::string_view name);

// "0, 1, 5" for messages that list ranks.
std::string join_numbers(const std::vector<int>& numbers);

}  // namespace lockstep
