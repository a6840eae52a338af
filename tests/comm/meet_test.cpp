// Ranks meet before the first collective of a backend that would wait for all of them without a
// limit. Here that is one of ours which says so; with NCCL it is tested where there is a GPU.
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"
#include "tests/comm/waits_backend.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

constexpr std::chrono::seconds kLong{60};
constexpr std::chrono::seconds kShort{2};

void on_ranks(int count, const std::function<void(Group&)>& body, const std::string& like = "shm") {
  EXPECT_NO_THROW(spawn(count, [&](int) {
    Group world = init_process_group(
        {.backend = "waits", .timeout = kLong, .registry = testing::registry_with_waits(like)});
    body(world);
    if (::testing::Test::HasFailure()) {
      throw std::runtime_error("expectations failed, see above");
    }
  }));
}

void sum(const Group& world, std::chrono::milliseconds timeout = kLong) {
  world.all_reduce(at::ones({2}), {.timeout = timeout}).wait();
}

void tell(const Group& world, const std::string& key) {
  world.store()->set(key, std::vector<std::uint8_t>{1});
}

// The last rank comes when the others have given up.
TEST(Meet, ARankThatDoesNotComeIsNamedOnAllRanksAndByItself) {
  for (const std::string like : {"shm", "gloo"}) {
    on_ranks(
        3,
        [](Group& world) {
          const bool is_late = world.rank() == 2;
          if (is_late) {
            world.store()->wait({"gave up 0", "gave up 1"}, kLong);
          }
          EXPECT_THAT(
              [&] { sum(world, kShort); },
              ThrowsMessage<PeerError>(
                  AllOf(HasSubstr("all_reduce #1 on rank " + std::to_string(world.rank()) +
                                  " of 3: timed out: rank 2 did not begin the first collective on "
                                  "cpu within 2 s, and it needs all ranks" +
                                  (is_late ? " (this rank came too late)" : "")),
                        HasSubstr("see the logs of the others, or raise the timeout"))));
          tell(world, "gave up " + std::to_string(world.rank()));
          world.store()->wait({"gave up 0", "gave up 1", "gave up 2"}, kLong);
        },
        like);
  }
}

TEST(Meet, ARankThatEndedIsNamedSoon) {
  on_ranks(2, [](Group& world) {
    if (world.rank() == 1) {
      ::_exit(0);
    }
    EXPECT_THAT([&] { sum(world); },
                ThrowsMessage<PeerError>(AllOf(
                    HasSubstr("all_reduce #1 on rank 0 of 2: rank 1 (pid "), HasSubstr("ended"))));
  });
}

// Its arrival is there, so the last one would find all.
TEST(Meet, ARankThatComesAfterADeathGoesNotOnAlone) {
  on_ranks(3, [](Group& world) {
    if (world.rank() == 2) {
      world.store()->set("first/arrived/2", std::vector<std::uint8_t>{1});
      ::_exit(0);
    }
    if (world.rank() == 1) {
      world.store()->wait({"gave up 0"}, kLong);
    }
    const std::string as_rank_0_saw_it = world.rank() == 0 ? "" : "rank 0 gave up: all_reduce #1";
    EXPECT_THAT([&] { sum(world); },
                ThrowsMessage<PeerError>(AllOf(HasSubstr(as_rank_0_saw_it),
                                               HasSubstr("rank 2 (pid "), HasSubstr("ended"))));
    tell(world, "gave up " + std::to_string(world.rank()));
    if (world.rank() == 0) {
      world.store()->wait({"gave up 1"}, kLong);
    }
  });
}

TEST(Meet, RanksMeetOnce) {
  for (const std::string like : {"shm", "gloo", "lockstep"}) {
    on_ranks(
        2,
        [](Group& world) {
          sum(world);
          const auto own = "first/arrived/" + std::to_string(world.rank());
          EXPECT_TRUE(world.store()->check({own}));
          world.store()->deleteKey(own);
          sum(world);
          world.barrier();
          EXPECT_FALSE(world.store()->check({own}));
        },
        like);
  }
}

TEST(Meet, SubgroupsMeetByThemselves) {
  on_ranks(3, [](Group& world) {
    const Group pair = world.new_group({0, 2});
    if (pair.is_member()) {
      sum(pair);
    }
    sum(world);
  });
}

// It leaves nothing in our group's store; DeleteKey() makes ours look like one.
TEST(Meet, APythonRankIsNotWaitedFor) {
  on_ranks(2, [](Group& world) {
    world.barrier({.timeout = kLong});
    const Group pair = world.new_group({0, 1});
    if (world.rank() == 0) {
      pair.store()->deleteKey("rank_info/1");
      EXPECT_THAT([&] { sum(pair, kShort); },
                  ThrowsMessage<PeerError>(AllOf(HasSubstr("all_reduce #1"),
                                                 Not(HasSubstr("did not begin the first")))));
      tell(world, "done");
    } else {
      world.store()->wait({"done"}, kLong);
    }
  });
}

TEST(Meet, ABarrierNamesTheSameRanksAsEver) {
  on_ranks(2, [](Group& world) {
    if (world.rank() == 0) {
      EXPECT_THAT([&] { world.barrier({.timeout = kShort}); },
                  ThrowsMessage<PeerError>(
                      HasSubstr("barrier #1 on rank 0 of 2: rank 1 did not arrive within 2 s")));
      tell(world, "done");
    } else {
      world.store()->wait({"done"}, kLong);
    }
  });
}

}  // namespace
}  // namespace lockstep
