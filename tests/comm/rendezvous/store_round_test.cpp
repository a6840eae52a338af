#include "lockstep/comm/rendezvous/store_round.h"

#include <gmock/gmock.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

using ::testing::IsFalse;
using ::testing::IsTrue;

c10::intrusive_ptr<c10d::Store> hash_store() { return c10::make_intrusive<c10d::HashStore>(); }

TEST(StoreRound, AGroupDoesNotSeeTheKeysOfTheGroupBefore) {
  const auto store = hash_store();
  for (int group = 0; group < 3; ++group) {
    StoreRound round(store);
    EXPECT_THAT(round.store()->check({"address"}), IsFalse()) << group;
    round.store()->set("address", "of rank 0");
    round.formed();
  }
}

TEST(StoreRound, TheFirstHasTheKeysOfARankThatKnowsNoRounds) {
  const auto store = hash_store();
  StoreRound(store).store()->set("address", "of rank 0");
  EXPECT_THAT(store->check({"address"}), IsTrue());
}

TEST(StoreRound, RanksMeetThoughOneOfThemTriesAgain) {
  const auto store = hash_store();
  const StoreRound failed(store);
  failed.store()->set("address", "of rank 0");
  EXPECT_THAT(StoreRound(store).store()->check({"address"}), IsTrue());
}

TEST(StoreRound, ARankThatDidNotSeeItsGroupFormedGoesOnWithTheOthers) {
  const auto store = hash_store();
  StoreRound(store).store()->set("address", "of rank 1");  // It fails in the last moment.
  StoreRound(store).formed();                              // Rank 0 does not.
  EXPECT_THAT(StoreRound(store).store()->check({"address"}), IsFalse());
}

TEST(StoreRound, AnotherStoreOfTheGroupHasTheSameRounds) {
  const auto store = hash_store();
  const auto other = hash_store();
  StoreRound first(store);
  first.of(other)->set("address", "of rank 0");
  first.formed();
  EXPECT_THAT(StoreRound(store).of(other)->check({"address"}), IsFalse());
}

// As one that is written in Python may.
class StoreThatCannotCount : public c10d::HashStore {
 public:
  int64_t add(const std::string& /*key*/, int64_t /*value*/) override {
    throw IoError("this store cannot count");
  }
};

TEST(StoreRound, OnAStoreThatCannotCountAllGroupsAreOfTheFirst) {
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<StoreThatCannotCount>();
  for (int group = 0; group < 2; ++group) {
    StoreRound round(store);
    EXPECT_EQ(round.store(), store);
    round.formed();
  }
}

}  // namespace
}  // namespace lockstep::comm
