#include "lockstep/comm/rendezvous/rank_info.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(GatherRankInfos, GivesEverybodyTheTextsOfAll) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto call = [&](int rank, const std::string& text) {
    return gather_rank_infos(*store, {.rank = rank, .size = 2, .backend = "b", .text = text},
                             milliseconds(30'000));
  };
  std::vector<std::string> seen;
  std::thread other([&] { seen = call(1, "two\nlines"); });
  EXPECT_THAT(call(0, ""), ElementsAre("", "two\nlines"));
  other.join();
  EXPECT_THAT(seen, ElementsAre("", "two\nlines"));
}

TEST(GatherRankInfos, NamesThoseWhoDidNotCome) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto call = [&](int rank) {
    return gather_rank_infos(*store, {.rank = rank, .size = 4, .backend = "b"}, milliseconds(100));
  };
  EXPECT_THROW(call(2), AbsentRanks);
  EXPECT_THAT([&] { call(0); },
              ThrowsMessage<AbsentRanks>(AllOf(HasSubstr("rank 0 of 4 waited 100 ms"),
                                               HasSubstr("ranks 1, 3 did not join"))));
}

TEST(GatherRankInfos, OfVeryManyItNamesTheFirst) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_THAT(
      [&] { gather_rank_infos(*store, {.rank = 0, .size = 99, .backend = "b"}, milliseconds(1)); },
      ThrowsMessage<AbsentRanks>(HasSubstr("ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, "
                                           "15, 16 and 82 more did not join")));
}

TEST(GatherRankInfos, ARankOfAnotherGroupOrBackendIsNamedBeforeTheTimeout) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto call = [&](int rank, int size, const char* backend) {
    return gather_rank_infos(*store, {.rank = rank, .size = size, .backend = backend},
                             milliseconds(30'000));
  };
  std::thread first([&] {
    EXPECT_THAT([&] { call(0, 2, "gloo"); },
                ThrowsMessage<UsageError>(HasSubstr("rank 1 asks for the backend 'gloo' and a "
                                                    "group of 3")));
  });
  store->wait({"rank_info/first"}, milliseconds(30'000));
  EXPECT_THAT([&] { call(1, 3, "gloo"); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("backend 'gloo' and a group of 3"),
                                              HasSubstr("rank 0 asks for the backend 'gloo' "
                                                        "and a group of 2"))));
  first.join();
  EXPECT_THAT([&] { call(2, 2, "shm"); }, ThrowsMessage<UsageError>(HasSubstr("backend 'shm'")));
}

TEST(GatherRankInfos, WhoCameFirstWithAnotherSizeIsToldToo) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  ::testing::internal::CaptureStderr();
  std::thread second([&] {
    store->wait({"rank_info/first"}, milliseconds(30'000));
    EXPECT_THROW(
        gather_rank_infos(*store, {.rank = 0, .size = 2, .backend = "b"}, milliseconds(30'000)),
        UsageError);
  });
  const std::string hint = "rank 0 asks for the backend 'b' and a group of 2, this one for";
  EXPECT_THAT(
      [&] {
        gather_rank_infos(*store, {.rank = 1, .size = 3, .backend = "b"}, milliseconds(1'000),
                          milliseconds(500));
      },
      ThrowsMessage<AbsentRanks>(AllOf(HasSubstr("rank 2 did not join"), HasSubstr(hint))));
  second.join();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("rank 1 of 3 waits for rank 2 to join"), HasSubstr(hint)));
}

TEST(GatherRankInfos, UnderAnElasticLauncherWhatAnEarlierAttemptLeftIsNoError) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_THROW(gather_rank_infos(*store, {.rank = 0, .size = 2, .backend = "b"}, milliseconds(1)),
               AbsentRanks);
  ::setenv("TORCHELASTIC_RUN_ID", "again", 1);
  EXPECT_THAT(
      gather_rank_infos(*store, {.rank = 0, .size = 1, .backend = "b"}, milliseconds(1'000)),
      ElementsAre(""));
  ::unsetenv("TORCHELASTIC_RUN_ID");
}

TEST(GatherRankInfos, WhatIsNoneOfOursIsAnError) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->set("rank_info/first", std::vector<std::uint8_t>{'x', '\n', 'y'});
  EXPECT_THAT([&] { require_same_as_first(*store, {.rank = 1, .size = 2}); },
              ThrowsMessage<PeerError>(HasSubstr("same version")));
}

}  // namespace
}  // namespace lockstep::comm
