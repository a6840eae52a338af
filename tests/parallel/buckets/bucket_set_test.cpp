// Gradients that are made in their buckets, and tensors that are there by mistake.
#include "lockstep/parallel/buckets/bucket_set.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <future>
#include <numeric>
#include <thread>

#include "tests/parallel/trial.h"

namespace lockstep {
namespace {

using testing::batch_of;
using testing::kAllLayers;
using testing::kHalve;
using testing::kWeightBytes;
using testing::kWidth;
using testing::on_ranks;
using testing::Order;
using testing::run_ranks;
using testing::Trial;

TEST(BucketSet, GradientsAreNotCopiedOnceTheirOrderIsKnown) {
  on_ranks([](Group& world) {
    Trial trial(world);
    for (int step = 0; step < 5; ++step) {
      trial.step(step);
      // The first gradient of a backward is made before anybody looks.
      EXPECT_EQ(trial.copied(), step == 0 ? 4 * kWeightBytes : kWeightBytes) << step;
    }
  });
}

TEST(BucketSet, NotWhereTheBackendCannotMultiply) {
  run_ranks(
      2,
      [](Group& world) {
        comm::install_placement_allocator({});  // As another group of the process does.
        Trial trial(world);
        for (int step = 0; step < 3; ++step) {
          trial.step(step);
          EXPECT_EQ(trial.copied(), 4 * kWeightBytes);
        }
      },
      "gloo");
}

TEST(BucketSet, NotWhereGradientsAreSeparate) {
  on_ranks([](Group& world) {
    Trial trial(world, {.gradient_as_bucket_view = false});
    for (int step = 0; step < 3; ++step) {
      trial.step(step);
      EXPECT_EQ(trial.copied(), 4 * kWeightBytes);
    }
  });
}

// Other tensors then lie in the places of gradients, and live on: the gradients of activations.
TEST(BucketSet, AWrongGuessHarmsNobody) {
  on_ranks([](Group& world) {
    Trial trial(world);
    const std::vector<Order> orders{{0, kHalve, 1, kHalve, 2, 3},
                                    {0, 1, 2, 3},
                                    {3, 2, 1, 0},
                                    {1, 0, 3, 2},
                                    {0, 1, 2, 3},
                                    {2, 0, 1, 3, 3, 0}};
    for (int step = 0; step < 48; ++step) {
      const auto& order = orders[static_cast<std::size_t>(step) % orders.size()];
      trial.wrapped().zero_grad();
      trial.add(step, order);
      trial.expect_averages(step, order);
    }
    EXPECT_GE(trial.moved(), 2);
  });
}

// Each rank leaves out another layer than in the step before, and another than its peer. What is
// left out is put as zero before the others are made.
TEST(BucketSet, PlacesOfUnusedGradientsStayZero) {
  for (const double cap : {25.0, 0.06}) {  // All in one bucket, or each in its own.
    on_ranks([cap](Group& world) {
      Trial trial(world, {.bucket_cap_mb = cap, .find_unused_parameters = true});
      const auto order_of = [](int rank, int step) {
        const auto used = static_cast<std::size_t>((rank + step) % 2 + 1);
        return Order{0, used, 3};
      };
      for (int step = 0; step < 12; ++step) {
        trial.wrapped().zero_grad();
        trial.add(step, order_of(world.rank(), step));
        trial.expect_averages(step, [&](int rank) { return order_of(rank, step); });
      }
    });
  }
}

TEST(BucketSet, GradientsOfAStaticGraphAreMadeInPlaceToo) {
  on_ranks([](Group& world) {
    Trial trial(world, {.static_graph = true});
    const Order order{0, 1, 2, 3, 1};  // One of them twice.
    for (int step = 0; step < 5; ++step) {
      trial.wrapped().zero_grad();
      trial.add(step, order);
      trial.expect_averages(step, order);
    }
    EXPECT_LE(trial.copied(), 2 * kWeightBytes);
  });
}

TEST(BucketSet, UnderNoSyncNothingIsPlaced) {
  on_ranks([](Group& world) {
    Trial trial(world);
    trial.steps(0, 3);
    trial.wrapped().zero_grad();
    {
      const auto guard = trial.ddp().no_sync();
      trial.add(3);
    }
    const auto local = trial.local_gradients(world.rank(), 3);
    EXPECT_TRUE(trial.wrapped().weights[2].grad().equal(local[2]));
    EXPECT_FALSE(comm::is_placed(trial.wrapped().weights[2].grad().const_data_ptr()));
    trial.add(4);
    EXPECT_EQ(trial.copied(), 4 * kWeightBytes) << "as docs/internals/gradient-memory.md says";
    auto expected = at::zeros({kWidth, kWidth});
    for (int rank = 0; rank < world.size(); ++rank) {
      const auto first = trial.local_gradients(rank, 3)[2];
      const auto both = first + trial.local_gradients(rank, 4)[2];
      expected += both.mul(1.0 / world.size());
    }
    EXPECT_TRUE(trial.wrapped().weights[2].grad().equal(expected));
  });
}

TEST(BucketSet, UnderNoSyncZeroedGradientsStayInTheirBuckets) {
  on_ranks([](Group& world) {
    Trial trial(world);
    trial.steps(0, 3);
    trial.wrapped().zero_grad(/*set_to_none=*/false);
    {
      const auto guard = trial.ddp().no_sync();
      trial.add(3);
    }
    trial.add(4);
    EXPECT_EQ(trial.copied(), 0U);
  });
}

TEST(BucketSet, TwoModulesInOneBackward) {
  on_ranks([](Group& world) {
    Trial first(world);
    Trial second(world);
    for (int step = 0; step < 5; ++step) {
      first.wrapped().zero_grad();
      second.wrapped().zero_grad();
      const auto sum = first.ddp()(batch_of(world.rank(), step), kAllLayers).sum() +
                       second.ddp()(batch_of(world.rank(), step), kAllLayers).sum();
      sum.backward();
      first.expect_averages(step);
      second.expect_averages(step);
    }
    EXPECT_LT(std::min(first.copied(), second.copied()), 2 * kWeightBytes);
  });
}

TEST(BucketSet, GradientsAccumulate) {
  on_ranks([](Group& world) {
    Trial trial(world);
    trial.steps(0, 3);
    // PyTorch divides what is there by the number of ranks, and sums it again.
    const auto before = trial.wrapped().weights[0].grad().clone();
    trial.add(3);
    auto expected = at::zeros_like(before);
    for (int rank = 0; rank < world.size(); ++rank) {
      expected += (before + trial.local_gradients(rank, 3)[0]).div(world.size());
    }
    EXPECT_TRUE(trial.wrapped().weights[0].grad().equal(expected));
    // Some are added to, some are new.
    trial.wrapped().weights[1].mutable_grad() = at::Tensor();
    trial.wrapped().weights[2].mutable_grad() = at::Tensor();
    const auto second = trial.wrapped().weights[0].grad().clone();
    trial.add(4);
    expected.zero_();
    auto alone = at::zeros_like(before);
    for (int rank = 0; rank < world.size(); ++rank) {
      const auto local = trial.local_gradients(rank, 4);
      expected += (second + local[0]).div(world.size());
      alone += local[1].mul(1.0 / world.size());
    }
    EXPECT_TRUE(trial.wrapped().weights[0].grad().equal(expected));
    EXPECT_TRUE(trial.wrapped().weights[1].grad().equal(alone));
    trial.steps(5, 8);
  });
}

TEST(BucketSet, GradientsOfAGraphAreLeftToIt) {
  on_ranks([](Group& world) {
    Trial trial(world);
    trial.steps(0, 3);
    trial.wrapped().zero_grad();
    auto sum = trial.ddp()(batch_of(world.rank(), 3), kAllLayers).sum();
    sum.backward({}, /*retain_graph=*/true, /*create_graph=*/true);
    trial.expect_averages(3);
    EXPECT_EQ(trial.copied(), 4 * kWeightBytes);  // And no bucket had to move.
    trial.step(4);
  });
}

TEST(BucketSet, AFailedBackwardLeavesNothingBehind) {
  on_ranks([](Group& world) {
    {
      Trial trial(world);
      trial.steps(0, 3);
      trial.wrapped().weights[1].register_hook(
          [](const at::Tensor&) { throw std::runtime_error("of the user's"); });
      trial.wrapped().zero_grad();
      EXPECT_THROW(trial.add(3), std::runtime_error);
      for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(comm::is_placed(at::empty({kWidth, kWidth}).const_data_ptr()));
      }
      EXPECT_EQ(comm::memory_source(), nullptr);
    }
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    std::iota(all.begin(), all.end(), 0);
    Trial again(world.new_group(all));
    again.steps(0, 3);
  });
}

TEST(BucketSet, AModuleThatEndsAfterAFailedBackwardTakesItsLenderAlong) {
  on_ranks([](Group& world) {
    auto trial = std::make_unique<Trial>(world);
    trial->steps(0, 3);
    trial->wrapped().weights[1].register_hook(
        [](const at::Tensor&) { throw std::runtime_error("of the user's"); });
    trial->wrapped().zero_grad();
    EXPECT_THROW(trial->add(3), std::runtime_error);
    EXPECT_NE(comm::memory_source(), nullptr);  // Until a tensor is made, which would end it too.
    trial.reset();
    EXPECT_EQ(comm::memory_source(), nullptr);
  });
}

// The thread of the failed backward is the last to know.
TEST(BucketSet, AModuleMayEndInAnotherThreadThanItsFailedBackward) {
  on_ranks([](Group& world) {
    auto trial = std::make_unique<Trial>(world);
    trial->steps(0, 3);
    trial->wrapped().weights[1].register_hook(
        [](const at::Tensor&) { throw std::runtime_error("of the user's"); });
    trial->wrapped().zero_grad();
    std::promise<void> failed;
    std::promise<void> gone;
    std::thread other([&] {
      EXPECT_THROW(trial->add(3), std::runtime_error);
      failed.set_value();
      gone.get_future().wait();
      testing::Layers plain;
      plain.forward(batch_of(0, 0), kAllLayers).sum().backward();
      for (const auto& weight : plain.weights) {
        EXPECT_FALSE(comm::is_placed(weight.grad().const_data_ptr()));
      }
      EXPECT_EQ(comm::memory_source(), nullptr);
    });
    failed.get_future().wait();
    trial.reset();
    gone.set_value();
    other.join();
  });
}

TEST(BucketSet, NotWhereItIsTurnedOff) {
  const auto expect_copies = [](bool option) {
    return [option](Group& world) {
      Trial trial(world, {.allocate_in_buckets = option});
      for (int step = 0; step < 3; ++step) {
        trial.step(step);
        EXPECT_EQ(trial.copied(), 4 * kWeightBytes);
        // Still views: gradients do not exist twice.
        EXPECT_TRUE(
            trial.wrapped().weights[0].grad().is_alias_of(trial.wrapped().weights[1].grad()));
      }
    };
  };
  run_ranks(2, expect_copies(false), "shm");
  ::setenv("LOCKSTEP_ALLOCATE_IN_BUCKETS", "0", 1);
  run_ranks(2, expect_copies(true), "shm");
  ::unsetenv("LOCKSTEP_ALLOCATE_IN_BUCKETS");
}

}  // namespace
}  // namespace lockstep
