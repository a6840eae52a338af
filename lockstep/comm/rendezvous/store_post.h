// Puts a value in a store for ranks that will look for it without waiting.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace lockstep::comm {

// Returns when the store has the value, or after two seconds, since the others can do without it.
// Store::set() alone does not wait: another rank, which knows from a collective that this rank has
// called set(), might look before the value is in the store.
inline void post(c10d::Store& store, const std::string& key,
                 const std::vector<std::uint8_t>& bytes) {
  constexpr std::chrono::milliseconds kPatience{2000};
  store.set(key, bytes);
  try {
    store.wait({key}, kPatience);    // Answered after the set was done.
  } catch (const std::exception&) {  // It is slow, or gone: whoever needs it will say so.
  }
}

inline void post(c10d::Store& store, const std::string& key, const std::string& text) {
  post(store, key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

}  // namespace lockstep::comm
