#include "lockstep/comm/roll_call.h"

#include <gmock/gmock.h>

#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(RollCall, GivesEverybodyTheTextsOfAll) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto call = [&](int rank, const std::string& text) {
    return call_roll(*store, {.rank = rank, .size = 2, .backend = "b", .text = text},
                     milliseconds(30'000));
  };
  std::vector<std::string> seen;
  std::thread other([&] { seen = call(1, "two\nlines"); });
  EXPECT_THAT(call(0, ""), ElementsAre("", "two\nlines"));
  other.join();
  EXPECT_THAT(seen, ElementsAre("", "two\nlines"));
}

TEST(RollCall, NamesThoseWhoDidNotCome) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto call = [&](int rank) {
    return call_roll(*store, {.rank = rank, .size = 4, .backend = "b"}, milliseconds(100));
  };
  EXPECT_THROW(call(2), AbsentRanks);
  EXPECT_THAT([&] { call(0); },
              ThrowsMessage<AbsentRanks>(AllOf(HasSubstr("rank 0 of 4 waited 100 ms"),
                                               HasSubstr("ranks 1, 3 did not join"))));
}

TEST(RollCall, ARankOfAnotherGroupOrBackendIsNamedBeforeTheTimeout) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto call = [&](int rank, int size, const char* backend) {
    return call_roll(*store, {.rank = rank, .size = size, .backend = backend},
                     milliseconds(30'000));
  };
  std::thread first([&] {
    EXPECT_THAT([&] { call(0, 2, "gloo"); },
                ThrowsMessage<UsageError>(HasSubstr("rank 1 was started with backend 'gloo' for a "
                                                    "group of 3")));
  });
  store->wait({"roll/first"}, milliseconds(30'000));
  EXPECT_THAT([&] { call(1, 3, "gloo"); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("backend 'gloo' for a group of 3"),
                                              HasSubstr("rank 0 was started with backend 'gloo' "
                                                        "for a group of 2"))));
  first.join();
  EXPECT_THAT([&] { call(2, 2, "shm"); }, ThrowsMessage<UsageError>(HasSubstr("backend 'shm'")));
}

TEST(RollCall, WhatIsNoneOfOursIsAnError) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->set("roll/first", std::vector<std::uint8_t>{'x', '\n', 'y'});
  EXPECT_THAT([&] { require_same_as_first(*store, {.rank = 1, .size = 2}); },
              ThrowsMessage<PeerError>(HasSubstr("same version")));
}

}  // namespace
}  // namespace lockstep::comm
