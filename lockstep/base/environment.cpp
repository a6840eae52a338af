#include "lockstep/base/environment.h"

#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"

namespace lockstep {

Environment Environment::of_this_process() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos) {
      environment.set(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return environment;
}

std::optional<std::string> Environment::get(std::string_view name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end() || found->second.empty()) {
    return std::nullopt;
  }
  return found->second;
}

std::optional<std::int64_t> Environment::get_int(std::string_view name) const {
  const auto text = get(name);
  if (!text) {
    return std::nullopt;
  }
  const auto value = parse_int(*text);
  if (!value) {
    throw UsageError("environment variable " + std::string(name) + " is '" + *text +
                     "', expected an integer; set it to a number or unset it");
  }
  return value;
}

std::int64_t Environment::require_int(std::string_view name) const {
  const auto value = get_int(name);
  if (!value) {
    throw UsageError("environment variable " + std::string(name) +
                     " is not set, expected an integer; set it, or start the program with "
                     "'lockstep run'");
  }
  return *value;
}

void Environment::set(std::string_view name, std::string_view value) {
  variables_.insert_or_assign(std::string(name), std::string(value));
}

}  // namespace lockstep
