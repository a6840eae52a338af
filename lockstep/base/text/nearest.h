// What somebody probably meant who wrote a name that does not exist.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// How many letters must be added, removed, changed, or swapped with their neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate that differs least from `word`: in at most a third of its letters, where '-' and
// '_', and large and small letters, are the same. Else the shortest candidate that begins with the
// word, if that has three letters. Of several the first; nothing if none is near.
std::optional<std::string> nearest_name(std::string_view word,
                                        const std::vector<std::string>& candidates);

// The same for a path: its first part that does not exist is replaced by the nearest name in the
// folder before it. Nothing if the path exists, or the rest of it is not there either.
std::optional<std::string> nearest_path(const std::string& path);

}  // namespace lockstep
