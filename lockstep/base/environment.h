// Environment variables as a value, so that what is decided from them can be tested.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string, std::less<>> variables)
      : variables_(std::move(variables)) {}
  Environment(std::initializer_list<std::pair<const std::string, std::string>> variables)
      : variables_(variables) {}

  // A copy of this process's environment, taken now.
  static Environment of_this_process();

  // A variable that is set to "" counts as not set.
  [[nodiscard]] std::optional<std::string> get(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return get(name).has_value(); }

  // Throws UsageError naming the variable and its value if it is not an integer.
  [[nodiscard]] std::optional<std::int64_t> get_int(std::string_view name) const;
  // Also throws UsageError if the variable is missing.
  [[nodiscard]] std::int64_t require_int(std::string_view name) const;

  void set(std::string_view name, std::string_view value);
  [[nodiscard]] const auto& variables() const { return variables_; }

 private:
  std::map<std::string, std::string, std::less<>> variables_;
};

}  // namespace lockstep
