#include "lockstep/parallel/step_errors.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep::parallel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_ranks;
using ::testing::ThrowsMessage;

[[noreturn]] void lose_a_peer() { throw PeerError("all_reduce #3: a rank is gone"); }

TEST(StepErrors, SaysWhereThisRankWas) {
  run_ranks(2, [](Group& world) {
    StepErrors guard(world, "key");
    guard.enter(Phase::kBackward, 12);
    EXPECT_THAT([&] { guard.run(lose_a_peer); },
                ThrowsMessage<PeerError>("DistributedDataParallel, backward of step 12 on rank " +
                                         std::to_string(world.rank()) +
                                         " of 2: all_reduce #3: a rank is gone"));
    world.barrier();
  });
}

TEST(StepErrors, PassesResultsThrough) {
  StepErrors guard(init_process_group(), "key");
  EXPECT_EQ(guard.run([] { return 5; }), 5);
}

TEST(StepErrors, RepeatsWhyAnotherRankFailed) {
  run_ranks(2, [](Group& world) {
    StepErrors guard(world, "key");
    guard.enter(Phase::kForward, 1);
    if (world.rank() == 1) {
      EXPECT_THROW(guard.run([] { throw UsageError("'branch.weight' got no gradient"); }),
                   UsageError);
      world.barrier();
    } else {
      world.barrier();
      EXPECT_THAT(
          [&] { guard.run(lose_a_peer); },
          ThrowsMessage<PeerError>(AllOf(
              HasSubstr(
                  "; rank 1 had failed: DistributedDataParallel, forward of step 1 on rank 1"),
              HasSubstr("'branch.weight' got no gradient"))));
    }
    world.barrier();
  });
}

TEST(StepErrors, TellsOfRanksThatEndedAfterFewerSteps) {
  run_ranks(2, [](Group& world) {
    if (world.rank() == 1) {
      StepErrors(world, "key").enter(Phase::kBetweenSteps, 9);
      world.barrier();
    } else {
      StepErrors guard(world, "key");
      guard.enter(Phase::kForward, 10);
      world.barrier();
      EXPECT_THAT([&] { guard.run(lose_a_peer); },
                  ThrowsMessage<PeerError>(
                      AllOf(HasSubstr("rank 1 ended after 9 steps, this rank is in its step 10"),
                            HasSubstr("DistributedSampler"))));
    }
    world.barrier();
  });
}

TEST(StepErrors, SaysNothingOfRanksThatEndedBecauseOfTheSamePeer) {
  run_ranks(2, [](Group& world) {
    if (world.rank() == 1) {
      StepErrors guard(world, "key");
      guard.enter(Phase::kBackward, 10);
      EXPECT_THROW(guard.run(lose_a_peer), PeerError);
    }
    world.barrier();
    if (world.rank() == 0) {
      StepErrors guard(world, "key");
      guard.enter(Phase::kBackward, 10);
      EXPECT_THAT([&] { guard.run(lose_a_peer); },
                  ThrowsMessage<PeerError>(Not(HasSubstr("; rank 1"))));
    }
    world.barrier();
  });
}

TEST(StepErrors, IsSeenByTheOthersInSharedMemory) {
  run_ranks(
      2,
      [](Group& world) {
        StepErrors guard(world, "key");
        guard.enter(Phase::kForward, 5);
        world.barrier();
        EXPECT_EQ(world.progress_of(1 - world.rank()),
                  (Progress{.phase = Phase::kForward, .step = 5}));
        world.barrier();
      },
      "shm");
}

}  // namespace
}  // namespace lockstep::parallel
