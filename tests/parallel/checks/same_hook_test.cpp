#include "lockstep/parallel/checks/same_hook.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/rendezvous/store_post.h"
#include "lockstep/parallel/checks/same_model.h"
#include "tests/comm/ranks.h"

namespace lockstep::parallel {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr const char* kOneHas = "rank 1 has registered a communication hook and rank 0 has not";

std::string difference_of(const Group& world, const std::string& key) {
  return hook_difference(*world.store(), key, {world.rank(), world.size()});
}

TEST(SameHook, OnAllRanksOrOnNoneIsAccepted) {
  run_ranks(2, [](Group& world) {
    for (const bool with : {false, true}) {
      const auto key = world.next_name("hooks");
      if (with) {
        announce_hook(world, key);
      }
      world.barrier();
      EXPECT_EQ(difference_of(world, key), "");
      EXPECT_NO_THROW(require_same_hook(world, key));
    }
  });
}

TEST(SameHook, OnOneRankIsAnErrorOfTheOther) {
  run_ranks(2, [](Group& world) {
    comm::post(*world.store(), model_key("ddp", world.rank()), "a model");
    if (world.rank() == 1) {
      announce_hook(world, "ddp");
    }
    world.barrier();
    EXPECT_THAT(difference_of(world, "ddp"), StartsWith(kOneHas));
    if (world.rank() == 1) {
      EXPECT_NO_THROW(require_same_hook(world, "ddp")) << "the other may register it yet";
    } else {
      EXPECT_THAT([&] { require_same_hook(world, "ddp"); },
                  ThrowsMessage<UsageError>(HasSubstr(kOneHas)));
    }
    world.barrier();
  });
}

TEST(SameHook, NothingIsSaidOfARankThatLeavesNothing) {
  run_ranks(2, [](Group& world) {
    if (world.rank() == 1) {
      announce_hook(world, "ddp");
      EXPECT_EQ(difference_of(world, "ddp"), "");
    }
    world.barrier();
  });
}

}  // namespace
}  // namespace lockstep::parallel
