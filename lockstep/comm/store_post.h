// Leaves something in a store for ranks that will look for it without waiting.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace lockstep::comm {

// Returns once the store has it. Store::set() does not wait for that: a rank that learns from a
// collective that this one is past its set() may look before the store has heard of it.
inline void post(c10d::Store& store, const std::string& key,
                 const std::vector<std::uint8_t>& bytes) {
  store.set(key, bytes);
  (void)store.check({key});  // The answer comes after the set was done.
}

inline void post(c10d::Store& store, const std::string& key, const std::string& text) {
  post(store, key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

}  // namespace lockstep::comm
