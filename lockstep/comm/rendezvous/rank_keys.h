// Keys in a store of which each rank sets one.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace lockstep::comm {

// "PREFIX/0", "PREFIX/1", ...
inline std::vector<std::string> keys_of_ranks(const std::string& prefix, int size) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < size; ++rank) {
    keys.push_back(prefix + "/" + std::to_string(rank));
  }
  return keys;
}

// Those whose key is not set. Does not wait.
inline std::vector<int> ranks_without(c10d::Store& store, const std::vector<std::string>& keys) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < keys.size(); ++rank) {
    if (!store.check({keys[rank]})) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks;
}

}  // namespace lockstep::comm
