#include "lockstep/parallel/checks/same_hook.h"

#include <chrono>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/comm/rendezvous/store_post.h"
#include "lockstep/comm/store_call.h"
#include "lockstep/parallel/checks/same_model.h"

namespace lockstep::parallel {
namespace {

constexpr std::chrono::seconds kLongestCheck{3};

std::string any_hook_key(const std::string& key) { return key + "/hook"; }
std::string hook_key(const std::string& key, int rank) {
  return any_hook_key(key) + "/" + std::to_string(rank);
}

}  // namespace

void announce_hook(const Group& group, const std::string& key) {
  if (group.is_distributed()) {
    const auto store = group.store();
    comm::post(*store, hook_key(key, group.rank()), "1");
    comm::post(*store, any_hook_key(key), "1");
  }
}

std::string hook_difference(c10d::Store& store, const std::string& key, const RankOf& self) {
  if (!store.check({any_hook_key(key)})) {
    return "";
  }
  const auto text = [](int with, int without) {
    return "rank " + std::to_string(with) + " has registered a communication hook and rank " +
           std::to_string(without) +
           " has not, or not yet; register the same hook on all ranks, or on none";
  };
  const bool here = store.check({hook_key(key, self.rank)});
  for (int rank = 0; rank < self.size; ++rank) {
    if (store.check({hook_key(key, rank)}) == here) {
      continue;
    }
    if (!here) {
      return text(rank, self.rank);
    }
    if (store.check({model_key(key, rank)})) {  // Else it may be Python's.
      return text(self.rank, rank);
    }
  }
  return "";
}

void require_same_hook(const Group& group, const std::string& key) {
  if (!group.is_distributed()) {
    return;
  }
  const auto found = std::make_shared<std::string>();
  const bool in_time = comm::within(kLongestCheck, [found, key, store = group.store(),
                                                    self = RankOf{group.rank(), group.size()}] {
    // A rank with a hook cannot judge: its hook may have waited for nobody, so the others may not
    // have come this far.
    if (!store->check({hook_key(key, self.rank)})) {
      *found = hook_difference(*store, key, self);
    }
  });
  if (in_time && !found->empty()) {
    throw UsageError(*found);
  }
}

}  // namespace lockstep::parallel
