// What data-parallel training says when a rank is gone, late or out of step.
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <stdexcept>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/comm/stopped_host.h"
#include "tests/parallel/nets.h"
#include "tests/parallel/victim.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using testing::Eventful;
using testing::expect_killed;
using ::testing::HasSubstr;
using testing::input_of;
using testing::run_ranks;
using testing::step;
using ::testing::ThrowsMessage;
using testing::with_victim;

TEST(Faults, KilledInBackwardIsNamedSoon) {
  with_victim(3, 1, [](Group& world) {
    auto net = std::make_shared<Eventful>();
    DistributedDataParallel ddp(net, world);
    step(ddp, world);
    auto loss = ddp(input_of(world.rank())).sum();
    if (world.rank() == 1) {
      net->net->weight.register_hook([](const at::Tensor&) { ::raise(SIGKILL); });
    }
    world.barrier();
    expect_killed(
        1, "DistributedDataParallel, backward of step 2 on rank " + std::to_string(world.rank()),
        [&] { loss.backward(); });
  });
}

TEST(Faults, AStoreThatDoesNotAnswerHoldsNoFailedRankUp) {
  EXPECT_NO_THROW(testing::with_host([](Group world) {
    std::optional<DistributedDataParallel<Eventful>> ddp;
    ddp.emplace(std::make_shared<Eventful>(), world);
    step(*ddp, world);
    const testing::StoppedHost host(world);
    if (world.rank() == 0) {
      return;
    }
    const auto begin = std::chrono::steady_clock::now();
    ddp->report_failure("no more input");
    ddp.reset();
    world.destroy();
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(30)) {
      throw std::runtime_error("leaving took too long");
    }
  }));
}

struct Odd {};  // No std::exception.

TEST(Faults, AnExceptionOfAnyTypeIsLeftForTheOthers) {
  run_ranks(
      2,
      [](Group& world) {
        auto net = std::make_shared<Eventful>();
        DistributedDataParallel ddp(net, world);
        step(ddp, world);
        if (world.rank() == 1) {
          net->act = [] { throw Odd(); };
          EXPECT_THROW(step(ddp, world), Odd);
          world.destroy();
          return;
        }
        EXPECT_THAT([&] { step(ddp, world); },
                    ThrowsMessage<PeerError>(
                        HasSubstr("rank 1 had failed: an exception that is no std::exception")));
      },
      "shm");
}

TEST(Faults, SlowForwardIsWaitedFor) {
  run_ranks(
      2,
      [](Group& world) {
        auto net = std::make_shared<Eventful>();
        DistributedDataParallel ddp(net, world);
        step(ddp, world);
        if (world.rank() == 1) {
          net->act = [] { std::this_thread::sleep_for(std::chrono::seconds(2)); };
        }
        step(ddp, world);
        EXPECT_EQ(ddp.stats().steps, 2);
      },
      "shm");
}

TEST(Faults, ForwardThatTakesTooLongIsNamed) {
  EXPECT_NO_THROW(spawn(2, [](int) {
    auto world = init_process_group({.backend = "shm", .timeout = std::chrono::seconds(3)});
    auto net = std::make_shared<Eventful>();
    DistributedDataParallel ddp(net, world);
    step(ddp, world);
    if (world.rank() == 1) {
      net->act = [] { std::this_thread::sleep_for(std::chrono::seconds(6)); };
      EXPECT_THROW(step(ddp, world), PeerError);
    } else {
      EXPECT_THAT([&] { step(ddp, world); },
                  ThrowsMessage<PeerError>(AllOf(HasSubstr("backward of step 2 on rank 0 of 2"),
                                                 HasSubstr("timed out"), HasSubstr("rank 1 (pid "),
                                                 HasSubstr("in forward of step 2"))));
    }
    if (::testing::Test::HasFailure()) {
      throw std::runtime_error("expectations failed, see above");
    }
  }));
}

TEST(Faults, RankWithFewerBatchesIsAnErrorThatNamesBothCounts) {
  for (const char* backend : {"shm", "gloo"}) {
    run_ranks(
        2,
        [](Group& world) {
          auto net = std::make_shared<Eventful>();
          auto ddp = std::make_unique<DistributedDataParallel<Eventful>>(net, world);
          for (int i = 0; i < 3; ++i) {
            step(*ddp, world);
          }
          if (world.rank() == 1) {
            ddp.reset();
            world.destroy();
            return;
          }
          EXPECT_THAT([&] { step(*ddp, world); },
                      ThrowsMessage<PeerError>(AllOf(
                          HasSubstr("backward of step 4 on rank 0 of 2"),
                          HasSubstr("rank 1 ended after 3 steps, this rank is in its step 4"))));
        },
        backend);
  }
}

TEST(Faults, RankThatGoesOnToAnotherCollectiveIsShown) {
  run_ranks(
      2,
      [](Group& world) {
        auto net = std::make_shared<Eventful>();
        DistributedDataParallel ddp(net, world);
        for (int i = 0; i < 3; ++i) {
          step(ddp, world);
        }
        if (world.rank() == 1) {  // One batch less: it is at the end of the epoch.
          EXPECT_THROW(world.all_reduce(at::ones({1})).wait(), PeerError);
        } else {
          EXPECT_THAT(
              [&] { step(ddp, world); },
              ThrowsMessage<PeerError>(AllOf(HasSubstr("backward of step 4 on rank 0"),
                                             HasSubstr("10 elements"), HasSubstr("1 element:"))));
        }
      },
      "shm");
}

TEST(Faults, FlippedBitInOneReplicaIsFoundAndNamed) {
  run_ranks(2, [](Group& world) {
    auto net = std::make_shared<Eventful>();
    DistributedDataParallel ddp(net, world, {.check_replicas_every = 3});
    step(ddp, world);
    if (world.rank() == 1) {
      reinterpret_cast<int*>(net->net->weight.data_ptr<float>())[5] ^= 1 << 20;
    }
    step(ddp, world);
    EXPECT_THAT([&] { step(ddp, world); },
                ThrowsMessage<PeerError>(HasSubstr(
                    "'net.weight' differs at the begin of step 3 between rank 0 and rank 1")));
  });
}

TEST(Faults, UnusedParametersOnOneRankAreToldToTheOthers) {
  run_ranks(
      2,
      [](Group& world) {
        auto net = std::make_shared<testing::Branches>();
        auto ddp = std::make_unique<DistributedDataParallel<testing::Branches>>(net, world);
        const auto out = (*ddp)(input_of(world.rank()), world.rank() == 0 ? 2 : 0);
        if (world.rank() == 1) {
          EXPECT_THROW(out.first.sum().backward(), UsageError);
          world.destroy();
        } else {
          EXPECT_THAT([&] { (out.first.sum() + out.second.sum()).backward(); },
                      ThrowsMessage<PeerError>(
                          AllOf(HasSubstr("rank 1 had failed"), HasSubstr("'second.weight'"))));
        }
      },
      "shm");
}

}  // namespace
}  // namespace lockstep
