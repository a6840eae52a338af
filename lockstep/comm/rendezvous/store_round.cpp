#include "lockstep/comm/rendezvous/store_round.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <exception>
#include <string>
#include <utility>

#include "lockstep/comm/library_errors.h"
#include "lockstep/comm/rendezvous/store_post.h"

namespace lockstep::comm {
namespace {

constexpr const char* kRound = "round";

// Nothing if the store cannot count, as some that are written in Python; then all groups on it are
// of the first round.
std::optional<std::int64_t> round_of(c10d::Store& store) {
  try {
    return store.add(kRound, 0);
  } catch (const std::exception& error) {
    const auto fault = fault_of(error);
    if (fault != Fault::kHere && fault != Fault::kArguments) {
      throw;  // The store is gone, or slow: this rank would go on with another number.
    }
    return std::nullopt;
  }
}

}  // namespace

StoreRound::StoreRound(c10::intrusive_ptr<c10d::Store> store)
    : store_(std::move(store)), number_(round_of(*store_)) {}

c10::intrusive_ptr<c10d::Store> StoreRound::of(c10::intrusive_ptr<c10d::Store> store) const {
  if (number_.value_or(0) == 0) {
    return store;
  }
  return c10::make_intrusive<c10d::PrefixStore>("round/" + std::to_string(*number_),
                                                std::move(store));
}

void StoreRound::formed() {
  if (!number_) {
    return;
  }
  try {
    // Every rank writes the same number: if only some get here, the others read it all the same.
    // It must be there before this rank can write the next one on another connection.
    post(*store_, kRound, std::to_string(*number_ + 1));
  } catch (const std::exception&) {  // The store is gone, and with it every later group on it.
  }
}

}  // namespace lockstep::comm
