// How the benchmarks write what they found.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace lockstep::bench {

// "x86_64", "aarch64".
std::string architecture();

// One digit after the point below 100, none above; "-" for nothing.
std::string number_text(std::optional<double> value, const char* unit = "");

// Two digits after the point; "-" for nothing.
std::string ratio_text(std::optional<double> value);

inline std::optional<double> scaled(std::optional<double> value, double scale) {
  return value ? std::optional(*value * scale) : std::nullopt;
}

inline nlohmann::json as_json(std::optional<double> value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace lockstep::bench
