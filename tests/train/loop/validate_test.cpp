#include "lockstep/train/loop/validate.h"

#include <gtest/gtest.h>

#include <torch/nn/modules/batchnorm.h>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/spawn.h"
#include "tests/support/child.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

TEST(Validate, SeesEverySampleOnceAndLeavesTheNetworkTraining) {
  const TrainConfig config;
  const auto world = init_process_group();
  Learner learner(config, BatchPlan{8, 1, 8, 1, 8}, toys::network(), world);
  const auto source = toys::table();
  data::DataLoader loader(source.validation,
                          {.batch_size = 8, .sampler = data::EvaluationSampler(30, 1, 0)});
  EXPECT_EQ(validate(learner, loader, world)->samples, 30);
  EXPECT_EQ(validate(learner, loader, world, {.batches = 2})->samples, 16);
  EXPECT_TRUE(learner.module().is_training());
}

double loss_after_a_step(const TrainConfig& config) {
  const auto world = init_process_group();
  Learner learner(config, BatchPlan{8, 1, 8, 10, 8}, toys::network(), world);
  at::manual_seed(4);
  const auto source = toys::table();
  std::vector<std::int64_t> rows(8);
  std::iota(rows.begin(), rows.end(), 0);
  Tally tally(at::kCPU);
  learner.backward(*source.train->get_batch(rows, {}), true, tally);
  learner.update();
  data::DataLoader loader(source.validation,
                          {.batch_size = 8, .sampler = data::EvaluationSampler(30, 1, 0)});
  return validate(learner, loader, world)->loss;
}

TEST(Validate, IsOfTheAveragesIfThereAreSuch) {
  const double before = loss_after_a_step({.lr = 1e-30, .weight_decay = 0});
  const double learned = loss_after_a_step({.lr = 0.5, .weight_decay = 0});
  EXPECT_NE(learned, before);
  const auto averaged = [](double decay) {
    return loss_after_a_step(
        {.lr = 0.5, .weight_decay = 0, .model_ema = true, .model_ema_decay = decay});
  };
  EXPECT_EQ(averaged(1), before) << "averages that stay where they began";
  EXPECT_EQ(averaged(0), learned) << "averages that are the last weights";
  EXPECT_NE(averaged(0.5), before);
  EXPECT_NE(averaged(0.5), learned);
}

TEST(Validate, StopsBetweenBatches) {
  const TrainConfig config;
  const auto world = init_process_group();
  Learner learner(config, BatchPlan{8, 1, 8, 1, 8}, toys::network(), world);
  const auto source = toys::table();
  data::DataLoader loader(source.validation,
                          {.batch_size = 8, .sampler = data::EvaluationSampler(30, 1, 0)});
  int asked = 0;
  EXPECT_FALSE(validate(learner, loader, world, {.is_stopped = [&] { return ++asked == 3; }}));
  EXPECT_EQ(asked, 3);
}

TEST(Validate, RanksWithFewerBatchesAskAsOften) {
  const int status = test::run_in_child([] {
    spawn(2, [](int rank) {
      const TrainConfig config;
      const auto world = init_process_group({.backend = "gloo"});
      Learner learner(config, BatchPlan{8, 1, 8, 1, 8}, toys::network(), world);
      const auto source = toys::table(96, 17);  // 9 and 8 samples: two batches and one.
      data::DataLoader loader(source.validation,
                              {.batch_size = 8, .sampler = data::EvaluationSampler(17, 2, rank)});
      int asked = 0;
      const auto scores =
          validate(learner, loader, world, {.is_stopped = [&] { return ++asked > 9; }});
      if (asked != 2 || scores->samples != 17) {
        throw UsageError("rank " + std::to_string(rank) + " asked " + std::to_string(asked));
      }
    });
    return 0;
  });
  EXPECT_EQ(status, 0);
}

// Rank 0 may save for longer than the world's collectives would wait for it.
TEST(Validate, RanksMeetBeforeTheyShareBuffers) {
  const int status = test::run_in_child([] {
    spawn(2, [](int rank) {
      const TrainConfig config;
      const auto world = init_process_group({.backend = "shm"});
      const auto control = world.new_group({0, 1});
      torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3));
      Learner learner(config, BatchPlan{8, 1, 8, 1, 8},
                      std::make_shared<models::Network>(net.ptr()), world);
      const auto source = toys::table();
      data::DataLoader loader(source.validation,
                              {.batch_size = 8, .sampler = data::EvaluationSampler(30, 2, rank)});
      const auto begun = [&] { return world.backend()->getSequenceNumberForGroup(); };
      const auto before = begun();
      std::atomic<std::uint64_t> meanwhile = 0;
      std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        meanwhile = begun();
        control.store()->set("looked/" + std::to_string(rank), std::vector<std::uint8_t>{1});
      });
      if (rank == 0) {
        other.join();
        control.store()->wait({"looked/1"});
      }
      const auto scores = validate(learner, loader, control);
      if (rank == 1) {
        other.join();
      }
      if (meanwhile != before || begun() == before || scores->samples != 30) {
        throw UsageError("rank " + std::to_string(rank) + " shared buffers too early");
      }
    });
    return 0;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lockstep::train
