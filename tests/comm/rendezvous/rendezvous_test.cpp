#include "lockstep/comm/rendezvous/rendezvous.h"

#include <gmock/gmock.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/spawn.h"
#include "tests/support/child.h"
#include "tests/support/soon.h"

namespace lockstep::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::soon;
using ::testing::ThrowsMessage;

// Each rank leaves its number in the store and reads the other's.
void exchange(c10d::Store& store, int rank) {
  store.set("from/" + std::to_string(rank), std::to_string(rank));
  const auto value = store.get("from/" + std::to_string(1 - rank));
  if (std::string(value.begin(), value.end()) != std::to_string(1 - rank)) {
    throw std::runtime_error("wrong value");
  }
}

cluster::Membership two_ranks(int rank) {
  cluster::Membership member;
  member.launched = true;
  member.rank = rank;
  member.world_size = 2;
  return member;
}

TEST(Rendezvous, RankZeroServesAtTheMastersAddress) {
  const int port = listen_on({"127.0.0.1", 0}).port;
  EXPECT_NO_THROW(spawn(2, [&](int rank) {
    auto member = two_ranks(rank);
    member.master = Endpoint{"127.0.0.1", port};
    auto rendezvous = meet(member, soon());
    if (rendezvous.hosts_store != (rank == 0)) {
      throw std::runtime_error("the wrong rank serves");
    }
    exchange(*rendezvous.store, rank);
    rendezvous.store->add("left", 1);
    while (rank == 0 && rendezvous.store->add("left", 0) < 2) {
    }
  }));
}

// In a child: the store's thread would stay.
TEST(Rendezvous, AStoreThatLivesWithTheProcessServesLaterGroups) {
  EXPECT_EQ(test::run_in_child([] {
              auto member = two_ranks(0);
              member.master = Endpoint{"127.0.0.1", listen_on({"127.0.0.1", 0}).port};
              meet(member, soon(), StoreLife::kWithTheProcess).store->set("k", "v");
              EXPECT_TRUE(meet(member, soon(), StoreLife::kWithTheProcess).store->check({"k"}));
              EXPECT_FALSE(meet(member, soon(), StoreLife::kWithItsUsers).store->check({"k"}))
                  << "one without rounds begins anew, at the same port";
              meet(member, soon(), StoreLife::kWithTheProcess);
              member.master->host = "localhost";
              EXPECT_NO_THROW(meet(member, soon(), StoreLife::kWithTheProcess))
                  << "by another name";
              auto elsewhere = member;
              elsewhere.master->host = "192.0.2.1";
              EXPECT_THROW(meet(elsewhere, soon(), StoreLife::kWithTheProcess), UsageError);
              EXPECT_TRUE(meet(member, soon(), StoreLife::kWithTheProcess).store)
                  << "after an address that cannot be served";
              return ::testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
}

TEST(Rendezvous, AGroupThatCouldNotBeFormedLeavesNothingToTheNext) {
  EXPECT_EQ(test::run_in_child([] {
              auto member = two_ranks(0);
              member.master = Endpoint{"127.0.0.1", listen_on({"127.0.0.1", 0}).port};
              auto failed = meet(member, soon(), StoreLife::kWithTheProcess);
              failed.store->set("k", "v");
              forget_store(std::move(failed));
              auto formed = meet(member, soon(), StoreLife::kWithTheProcess);
              EXPECT_FALSE(formed.store->check({"k"}));
              formed.store->set("k", "v");
              forget_store(meet(member, soon(), StoreLife::kWithTheProcess));
              EXPECT_TRUE(meet(member, soon(), StoreLife::kWithTheProcess).store->check({"k"}))
                  << "a group uses it";
              return ::testing::Test::HasFailure() ? 1 : 0;
            }),
            0);
}

TEST(Rendezvous, RanksOfOneHostMeetByName) {
  EXPECT_NO_THROW(spawn(2, [](int rank) {
    auto member = two_ranks(rank);
    member.meeting_name = "rendezvous-test-" + std::to_string(::getppid());
    auto rendezvous = meet(member, soon());
    exchange(*rendezvous.store, rank);
    rendezvous.store->add("left", 1);
    while (rank == 0 && rendezvous.store->add("left", 0) < 2) {
    }
  }));
}

TEST(Rendezvous, OneRankNeedsNobody) {
  const auto rendezvous = meet(cluster::Membership{}, soon());
  rendezvous.store->set("k", "v");
  EXPECT_TRUE(rendezvous.store->check({"k"}));
  EXPECT_FALSE(rendezvous.hosts_store);
}

TEST(Rendezvous, AnAddressOfAnotherMachineCannotBeServed) {
  auto member = two_ranks(0);
  member.master = Endpoint{"192.0.2.1", 29500};
  EXPECT_THAT([&] { meet(member, soon()); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("rank 0"), HasSubstr("192.0.2.1"),
                                              HasSubstr("address of this machine"))));
}

}  // namespace
}  // namespace lockstep::comm
