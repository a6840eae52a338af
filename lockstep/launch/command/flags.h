// The flags of `lockstep run`: torchrun's, in both spellings, and a few of our own.
//
// This file knows names and values as text; options.h gives them their meaning.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/environment.h"

namespace lockstep::launch {

struct FlagValues {
  // By hyphenated long name; a switch that is on has the value "1".
  std::map<std::string, std::string, std::less<>> values;
  // The first word that is no flag, and everything after it, untouched.
  std::vector<std::string> command;

  [[nodiscard]] std::optional<std::string> get(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return get(name).has_value(); }
};

// Reads flags up to the program's name. A flag that is not given takes torchrun's
// PET_<NAME> variable, if set. Throws UsageError for an unknown flag, a missing value
// and, by name, for a flag of torchrun that lockstep does not have yet.
FlagValues scan_flags(const std::vector<std::string>& arguments, const Environment& environment);

// One line per supported flag, for --help.
std::string describe_flags();

}  // namespace lockstep::launch
