#include "lockstep/comm/backends/hosts/host_map.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace lockstep::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<HostCard> cards(const std::vector<std::string>& ids) {
  std::vector<HostCard> made;
  for (const auto& id : ids) {
    made.push_back({.id = id, .name = "box-" + id, .addresses = {"10.0.0." + id, "fd00::" + id}});
  }
  return made;
}

TEST(HostMap, NumbersHostsByTheirFirstRanks) {
  const HostMap map(cards({"7", "3", "7", "3"}), 2);
  EXPECT_EQ(map.hosts(), 2);
  EXPECT_EQ(map.here(), 0);
  EXPECT_EQ(map.host_of(3), 1);
  EXPECT_THAT(map.ranks_on(1), ElementsAre(1, 3));
  EXPECT_EQ(map.local_rank_of(3), 1);
  EXPECT_EQ(map.lanes(), 2);
  EXPECT_THAT(map.addresses_of_others(), ElementsAre("10.0.0.3", "fd00::3"));
}

TEST(HostMap, ARankThatTheSmallestHostHasNoPeerForHasNoLane) {
  const auto unequal = cards({"1", "1", "1", "2", "2"});
  EXPECT_EQ(HostMap(unequal, 1).lane(), 1);
  EXPECT_EQ(HostMap(unequal, 2).lane(), std::nullopt);
  EXPECT_EQ(HostMap(unequal, 4).lane(), 1);
}

TEST(HostMap, SharesCoverEveryElementOnce) {
  for (const int ranks : {1, 2, 3, 5}) {
    std::vector<std::string> ids(static_cast<std::size_t>(ranks), "1");
    ids.insert(ids.end(), static_cast<std::size_t>(ranks), "2");
    ids.push_back("1");  // Without a lane.
    const HostMap map(cards(ids), 0);
    for (const std::int64_t elements : {0, 1, 2, 4, 7, 1000}) {
      std::int64_t next = 0;
      for (int rank = 0; rank <= ranks; ++rank) {
        const auto share = map.share(elements, rank);
        EXPECT_EQ(share.at, next);
        EXPECT_LE(share.count, elements / ranks + 1);
        next += share.count;
      }
      EXPECT_EQ(next, elements);
    }
  }
}

TEST(HostMap, FindsTheHostOfAnAddressInAnErrorsText) {
  const HostMap map(cards({"1", "2", "12"}), 0);
  EXPECT_EQ(map.other_host_named_in("Connection closed by peer [10.0.0.2]:4711"), 1);
  EXPECT_EQ(map.other_host_named_in("Connection closed by peer [::ffff:10.0.0.12]:4711"), 2);
  EXPECT_EQ(map.other_host_named_in("read [fd00::2]: timed out"), 1);
  EXPECT_EQ(map.other_host_named_in("[10.0.0.1]:4711"), std::nullopt) << "this host itself";
  EXPECT_EQ(map.other_host_named_in("10.0.0.2 and 10.0.0.12"), std::nullopt) << "two of them";
  EXPECT_EQ(map.other_host_named_in("110.0.0.2"), std::nullopt);
}

TEST(HostMap, DescribesAHostWithItsAddressesAndRanks) {
  EXPECT_EQ(HostMap(cards({"1", "2", "2"}), 0).describe(1),
            "host 'box-2' (10.0.0.2, fd00::2; ranks 1, 2)");
}

TEST(HostCard, SurvivesTheStore) {
  const auto here = HostCard::of_this_process();
  EXPECT_FALSE(here.id.empty());
  EXPECT_FALSE(here.name.empty());
  const auto read = HostCard::from_text(here.to_text());
  EXPECT_EQ(read.id, here.id);
  EXPECT_EQ(read.name, here.name);
  EXPECT_EQ(read.addresses, here.addresses);
}

TEST(HostCard, AHostToldApartByHandHasThatInItsName) {
  ::setenv("LOCKSTEP_HOST_ID", "left", 1);
  const auto left = HostCard::of_this_process();
  ::unsetenv("LOCKSTEP_HOST_ID");
  EXPECT_EQ(left.id, "left");
  EXPECT_EQ(left.name, HostCard::of_this_process().name + "/left");
}

TEST(HostCard, AnythingElseIsAnIdAllTheSame) {
  EXPECT_EQ(HostCard::from_text("x").id, "x");
  EXPECT_EQ(HostCard::from_text("").id, "");
}

}  // namespace
}  // namespace lockstep::comm
