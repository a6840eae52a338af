// A communication hook must be on all ranks or on none; this tells when it is not.
//
// Ranks may register one at any time before their first forward, so there is no collective to
// compare them in. A rank that has one says so in the store under `key`. Python ranks say nothing.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/comm/group.h"

namespace lockstep::parallel {

void announce_hook(const Group& group, const std::string& key);

struct RankOf {
  int rank = 0;
  int size = 1;
};

// Compares this rank with the others: "rank 0 has registered a communication hook and rank 1 has
// not" for the first that differs, empty if none does. A rank that has not come this far counts as
// one without a hook.
std::string hook_difference(c10d::Store& store, const std::string& key, const RankOf& self);

// For the end of a first step, in which all ranks took part. Throws UsageError on ranks without a
// hook if another has one. The others hear of that as of any failure. Throws nothing if the store
// does not answer.
void require_same_hook(const Group& group, const std::string& key);

}  // namespace lockstep::parallel
