#include "lockstep/train/program/wrong_flags.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest.h"
#include "lockstep/base/text/text.h"

namespace lockstep::train {
namespace {

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

// What is wrong in a config file: a key that is no flag, or the value that CLI11 complains about.
// Empty if it is not the file's.
std::string fault_in_file(const CLI::App& app, const std::string& file, const std::string& what) {
  for (const auto& item : app.get_config_formatter()->from_file(file)) {
    const auto flag = "--" + item.name;
    const auto* option = app.get_option_no_throw(flag);
    if (option == nullptr && app.get_option_no_throw("-" + item.name) == nullptr &&
        app.get_option_no_throw(item.name) == nullptr) {
      const auto nearest = nearest_name(flag, flag_names(app));
      return "there is no flag '" + item.fullname() + "'; HINT: " +
             (nearest ? nearest->substr(2) + " = ..., as " + *nearest
                      : "lockstep train --help lists all flags");
    }
    if (option != nullptr && contains(what, option->get_name()) && !item.inputs.empty() &&
        contains(what, item.inputs.front())) {
      return "'" + item.name + "' is '" + item.inputs.front() + "': " + what +
             "; HINT: give it a value as " + flag + " takes it";
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> config_files(const CLI::App& app) {
  return app.get_option("--config")->as<std::vector<std::string>>();
}

void refuse_extras(const CLI::App& app) {
  const auto word = app.remaining().front();
  const auto name = word.substr(0, word.find('='));
  const auto nearest = nearest_name(name, flag_names(app));
  throw UsageError((word.starts_with('-') ? "there is no flag '" : "what is '") + name +
                   (word.starts_with('-') ? "'" : "'? The data is given already") +
                   (nearest ? "; HINT: " + *nearest : "; lockstep train --help lists all flags"));
}

void require_sound_files(const CLI::App& app, const std::string& what) {
  for (const auto& file : config_files(app)) {
    const auto fault = file.empty() ? "" : fault_in_file(app, file, what);
    if (!fault.empty()) {
      throw UsageError("--config " + file + ": " + fault);
    }
  }
}

void refuse(const CLI::App& app, const CLI::ParseError& error) {
  const bool is_missing = dynamic_cast<const CLI::FileError*>(&error) != nullptr;
  for (const auto& file : config_files(app)) {
    if (is_missing && contains(error.what(), file)) {
      const auto nearest = nearest_path(file);
      throw UsageError("--config: '" + file + "' cannot be read, expected a TOML file; HINT: " +
                       (nearest ? "--config " + *nearest : "give the config.toml of a run"));
    }
  }
  if (!is_missing) {
    require_sound_files(app, error.what());
  }
  throw UsageError(error.what());
}

void require_one_data(const CLI::Option& option, int argc, const char* const* argv) {
  const auto& given = option.results();
  const auto is_flag = [](const std::string& word) {
    return word.starts_with("--data-dir") || word.starts_with("--data-path");
  };
  const auto flags = std::count_if(argv + 1, argv + argc, is_flag);
  const bool has_positional = static_cast<std::ptrdiff_t>(given.size()) > flags;
  const auto other = std::ranges::find_if(given, [&](const auto& one) { return one != given[0]; });
  if (has_positional && other != given.end()) {
    throw UsageError("the data is '" + given.front() + "' and '" + *other +
                     "', expected one of them; HINT: leave DATA out, or --data-dir");
  }
  if (!given.empty() && given.back().empty()) {
    throw UsageError(
        "the data is '', expected a name or a path; HINT: leave it out for fashion-mnist");
  }
}

void require_values(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--") && word.ends_with('=')) {
      const auto flag = word.substr(0, word.size() - 1);
      throw UsageError(flag + " has no value after '='; HINT: give one, or leave " + flag + " out");
    }
  }
}

}  // namespace lockstep::train
