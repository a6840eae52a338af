// What training says when a rank is lost in a communication hook or inside join().
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/hooks/default_hooks.h"
#include "tests/parallel/victim.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using testing::Eventful;
using testing::expect_killed;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::step;
using ::testing::ThrowsMessage;
using testing::with_victim;

std::string place_of(const Group& world) {
  return " on rank " + std::to_string(world.rank()) + " of " + std::to_string(world.size());
}

// The others wait for it in the second collective of the hook.
TEST(HookFaults, KilledInWhatFollowsAHookIsNamed) {
  with_victim(3, 1, [](Group& world) {
    DistributedDataParallel ddp(std::make_shared<Eventful>(), world);
    bool dies = false;
    ddp.register_comm_hook([&](GradBucket& bucket) {
      return allreduce_hook(world)(bucket).then([&](const at::Tensor& average) {
        if (dies) {
          ::raise(SIGKILL);
        }
        world.all_reduce(average).wait();
        return average;
      });
    });
    step(ddp, world);
    dies = world.rank() == 1;
    expect_killed(1, "backward of step 2" + place_of(world), [&] { step(ddp, world); });
  });
}

TEST(HookFaults, AHookThatThrowsOnOneRankIsToldToTheOthers) {
  run_ranks(
      2,
      [](Group& world) {
        DistributedDataParallel ddp(std::make_shared<Eventful>(), world);
        bool throws = false;
        ddp.register_comm_hook([&](GradBucket& bucket) -> TensorFuture {
          if (throws) {
            throw UsageError("the hook has no room");
          }
          return allreduce_hook(world)(bucket);
        });
        step(ddp, world);
        throws = world.rank() == 1;
        const auto start = std::chrono::steady_clock::now();
        if (world.rank() == 1) {
          EXPECT_THAT([&] { step(ddp, world); },
                      ThrowsMessage<UsageError>(HasSubstr("the hook has no room")));
          world.destroy();
        } else {
          EXPECT_THAT([&] { step(ddp, world); },
                      ThrowsMessage<PeerError>(AllOf(HasSubstr("rank 1 had failed"),
                                                     HasSubstr("the hook has no room"))));
        }
        EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
      },
      "shm");
}

struct CodecError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(HookFaults, AnExceptionOfTheUsersComesOutAsItIs) {
  for (const bool later : {false, true}) {
    run_ranks(
        2,
        [&](Group& world) {
          DistributedDataParallel ddp(std::make_shared<Eventful>(), world);
          bool throws = false;
          ddp.register_comm_hook([&](GradBucket& bucket) -> TensorFuture {
            const auto codec = [](const at::Tensor&) -> at::Tensor {
              throw CodecError("the codec broke: Timed out waiting");  // As c10d says it.
            };
            if (throws) {
              return TensorFuture(later ? bucket.buffer() : codec({})).then(codec);
            }
            return allreduce_hook(world)(bucket);
          });
          step(ddp, world);
          throws = world.rank() == 1;
          if (world.rank() == 1) {
            EXPECT_THAT([&] { step(ddp, world); },
                        ThrowsMessage<CodecError>(HasSubstr("the codec broke")));
            world.destroy();
          } else {
            EXPECT_THAT([&] { step(ddp, world); },
                        ThrowsMessage<PeerError>(AllOf(
                            HasSubstr("rank 1 had failed: DistributedDataParallel, backward of "
                                      "step 2 on rank 1 of 2"),
                            HasSubstr("the communication hook threw: the codec broke"))));
          }
        },
        "shm");
  }
}

// Autograd lets no such exception through.
TEST(HookFaults, AnExceptionThatIsNoStdExceptionIsAUsageError) {
  const auto world = init_process_group();
  DistributedDataParallel ddp(std::make_shared<Eventful>(), world);
  ddp.register_comm_hook([](GradBucket&) -> TensorFuture { throw 42; });
  EXPECT_THAT([&] { step(ddp, world); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("backward of step 1 on rank 0"),
                                              HasSubstr("derive it from std::exception"))));
}

TEST(HookFaults, AFutureWithoutAFunctionIsRefused) {
  EXPECT_THAT([] { const TensorFuture future{std::function<at::Tensor()>()}; },
              ThrowsMessage<UsageError>(HasSubstr("is empty")));
}

// Over shared memory the collectives differ; those of gloo do not look at what is asked for.
TEST(HookFaults, AHookOnOneRankAloneIsToldOnBoth) {
  for (const char* backend : {"shm", "gloo"}) {
    run_ranks(
        2,
        [](Group& world) {
          DistributedDataParallel ddp(std::make_shared<Eventful>(), world);
          if (world.rank() == 0) {
            ddp.register_comm_hook(allreduce_hook(world));
          }
          const auto two_steps = [&] {
            step(ddp, world);
            step(ddp, world);
          };
          EXPECT_THAT(two_steps, ThrowsMessage<Error>(HasSubstr(
                                     "rank 0 has registered a communication hook and "
                                     "rank 1 has not, or not yet; register the same hook")));
          if (world.rank() == 1) {
            EXPECT_EQ(ddp.stats().steps, 0) << "no wrong gradient is used";
            world.destroy();
          }
        },
        backend);
  }
}

TEST(HookFaults, AHookThatWasRefusedIsNone) {
  run_ranks(
      2,
      [](Group& world) {
        DistributedDataParallel ddp(std::make_shared<Eventful>(), world);
        if (world.rank() == 0) {
          EXPECT_THROW(ddp.register_comm_hook({}), UsageError);
        }
        step(ddp, world);
        step(ddp, world);
        EXPECT_EQ(ddp.stats().steps, 2);
      },
      "shm");
}

// Rank 2 has one input, and takes part in the steps of the others afterwards.
int inputs_in_join(const Group& world) { return world.rank() == 2 ? 1 : 4; }

TEST(JoinFaults, AnActiveRankThatIsKilledIsNamedByAllOthers) {
  with_victim(3, 1, [](Group& world) {
    const auto net = std::make_shared<Eventful>();
    DistributedDataParallel ddp(net, world);
    expect_killed(1, place_of(world), [&] {
      ddp.join([&] {
        for (int i = 0; i < inputs_in_join(world); ++i) {
          if (world.rank() == 1 && i == 2) {
            net->act = [] { ::raise(SIGKILL); };
          }
          step(ddp, world);
        }
      });
    });
  });
}

TEST(JoinFaults, ARankThatIsKilledWhileItHasNoInputsIsNamed) {
  with_victim(3, 2, [](Group& world) {
    DistributedDataParallel ddp(std::make_shared<Eventful>(), world);
    bool has_inputs = true;
    ddp.register_comm_hook([&](GradBucket& bucket) {  // Which gets zeros then.
      if (!has_inputs && world.rank() == 2) {
        ::raise(SIGKILL);
      }
      return allreduce_hook(world)(bucket);
    });
    expect_killed(2, place_of(world), [&] {
      ddp.join([&] {
        for (int i = 0; i < inputs_in_join(world); ++i) {
          step(ddp, world);
        }
        has_inputs = false;
      });
    });
  });
}

TEST(JoinFaults, AnExceptionInTheHookOfARankWithoutInputsComesOutAsItIs) {
  run_ranks(
      2,
      [](Group& world) {
        DistributedDataParallel ddp(std::make_shared<Eventful>(), world);
        bool has_inputs = true;
        ddp.register_comm_hook([&](GradBucket& bucket) {
          if (!has_inputs && world.rank() == 1) {
            throw CodecError("the codec broke");
          }
          return allreduce_hook(world)(bucket);
        });
        const auto train = [&] {
          ddp.join([&] {
            for (int i = 0; i < 3 - world.rank(); ++i) {
              step(ddp, world);
            }
            has_inputs = false;
          });
        };
        if (world.rank() == 1) {
          EXPECT_THAT(train, ThrowsMessage<CodecError>(HasSubstr("the codec broke")));
          world.destroy();
        } else {
          EXPECT_THAT(train, ThrowsMessage<PeerError>(
                                 HasSubstr("the communication hook threw: the codec broke")));
        }
      },
      "shm");
}

TEST(JoinFaults, AnErrorInTheBodyIsToldToTheOthers) {
  run_ranks(
      2,
      [](Group& world) {
        DistributedDataParallel ddp(std::make_shared<Eventful>(), world);
        const auto train = [&] {
          ddp.join([&] {
            for (int i = 0; i < 3; ++i) {
              if (world.rank() == 1 && i == 2) {
                throw std::runtime_error("the disk is full");
              }
              step(ddp, world);
            }
          });
        };
        if (world.rank() == 1) {
          EXPECT_THAT(train, ThrowsMessage<std::runtime_error>(HasSubstr("the disk is full")));
          world.destroy();
        } else {
          EXPECT_THAT(train, ThrowsMessage<PeerError>(AllOf(HasSubstr("rank 1 had failed"),
                                                            HasSubstr("the disk is full"))));
        }
      },
      "shm");
}

}  // namespace
}  // namespace lockstep
