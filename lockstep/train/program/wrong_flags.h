// What is wrong on the command line or in its config file, where CLI11 says nothing, or not which
// flag, which file and what to give instead. All functions that refuse throw UsageError.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lockstep::train {

// The values of --config.
std::vector<std::string> config_files(const CLI::App& app);

// Before the words are parsed. "--flag=" has no value: CLI11 would take the next word, a flag
// perhaps, for it.
void require_values(int argc, const char* const* argv);

// CLI11 could not parse the words or the file.
[[noreturn]] void refuse(const CLI::App& app, const CLI::ParseError& error);
// Throws if the fault that `what` tells is one of a config file; the error names the file.
void require_sound_files(const CLI::App& app, const std::string& what);

// The words that no flag took.
[[noreturn]] void refuse_extras(const CLI::App& app);
// The last of several --data-dir counts, as with every flag; DATA beside another one is a slip.
void require_one_data(const CLI::Option& option, int argc, const char* const* argv);

}  // namespace lockstep::train
