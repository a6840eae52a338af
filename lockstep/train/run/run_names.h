// How the folders of runs are called, and which of them are there.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

namespace lockstep::train {

// "fashion-mnist-resnet18": the last part of each, without ".csv", and with a dash in the place of
// what is no letter, digit, dot, dash or underscore. Never empty, never with a dot in front, and at
// most 100 characters.
std::string run_name(const std::string& data, const std::string& model);

// "name" for 1, "name-2" for 2.
std::string numbered_run(const std::string& name, std::int64_t number);

// The numbers of all folders with this name, the largest first.
std::set<std::int64_t, std::greater<>> numbers_of_folders(const std::string& root,
                                                          const std::string& name);

// Whether the folder has nothing of a run, no config.toml and no checkpoint: it is empty, or has
// only what a start writes before it knows that it can begin. False for what is no folder, or
// cannot be read.
bool is_left_over(const std::string& folder);

// The folder of the newest run of this name; empty if there is none.
std::string newest_run(const std::string& root, const std::string& name);
// The folder that a run would get that is not to go on with another.
std::string next_run(const std::string& root, const std::string& name);

}  // namespace lockstep::train
