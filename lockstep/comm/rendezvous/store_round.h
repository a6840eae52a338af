// Groups that are formed on one store, one after the other: a rank that destroys its group and
// makes a new one must not meet what the ranks left in the store for the group before.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <optional>

namespace lockstep::comm {

// The keys of one group on a store. Each group that was formed ends a round, and the next group
// has its keys below the number of the next round. Ranks agree on the number because all of them
// read it before they meet, and write it after they have met: it may only be used for groups that
// wait for all their ranks. A group that could not be formed leaves the number as it is, so ranks
// that try again meet those that try for the first time.
class StoreRound {
 public:
  // Throws what the store throws if it is gone.
  explicit StoreRound(c10::intrusive_ptr<c10d::Store> store);

  // The keys of this round. Those of the first have no prefix.
  [[nodiscard]] c10::intrusive_ptr<c10d::Store> store() const { return of(store_); }
  // The same round's keys in another store of the group.
  [[nodiscard]] c10::intrusive_ptr<c10d::Store> of(c10::intrusive_ptr<c10d::Store> store) const;

  // To be called when the group stands.
  void formed();

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::optional<std::int64_t> number_;
};

}  // namespace lockstep::comm
