// What `lockstep train` makes of these words.
#pragma once

#include <string>
#include <vector>

#include "lockstep/train/program/flags.h"

namespace lockstep::train {

inline CommandLine parse(std::vector<std::string> words) {
  words.insert(words.begin(), "train");
  std::vector<const char*> argv;
  for (const auto& word : words) {
    argv.push_back(word.c_str());
  }
  return parse_command_line(static_cast<int>(argv.size()), argv.data());
}

}  // namespace lockstep::train
