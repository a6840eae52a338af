#include "lockstep/train/loop/trainer.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/file_system.h"
#include "lockstep/comm/spawn.h"
#include "tests/train/toy_trainer.h"

namespace lockstep::train {
namespace {

using toys::kShort;
using toys::ToyRun;

TEST(Trainer, MakesAllStepsAndValidatesEachEpoch) {
  ToyRun run(kShort);
  const auto outcome = run.trainer->run();
  EXPECT_EQ(run.seen.losses.size(), 24U);
  EXPECT_THAT(run.seen.epochs, ::testing::ElementsAre(30, 30));
  EXPECT_EQ(outcome.position.step, 24);
  EXPECT_EQ(outcome.samples, 192);
  EXPECT_LT(run.seen.losses.back(), run.seen.losses.front());
}

TEST(Trainer, TheRateOfAnEpochIsThatOfAllItsSteps) {
  const auto pause = [](std::int64_t step) {
    if (step == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
  };
  ToyRun run(kShort, {.each = pause});
  const auto outcome = run.trainer->run();
  ASSERT_EQ(run.seen.rates.size(), 2U);
  EXPECT_LT(run.seen.rates[0], 96 / 0.3);
  EXPECT_NEAR(96 / run.seen.rates[0] + 96 / run.seen.rates[1], outcome.times.total, 1e-6);
}

// The first write takes longer than the timeout of collectives.
struct SlowFiles : checkpoint::FileSystem {
  int fsync(int file) override {
    if (!std::exchange(is_slow_no_more, true)) {
      std::this_thread::sleep_for(std::chrono::seconds(7));
    }
    return checkpoint::FileSystem::fsync(file);
  }
  bool is_slow_no_more = false;
};

TEST(Trainer, ARankThatWaitsForItsDiskIsWaitedFor) {
  EXPECT_NO_THROW(spawn(2, [](int rank) {
    const TrainConfig config{.batch_size = 24, .epochs = 1, .checkpoint_interval = 1};
    const Group world = init_process_group({.timeout = std::chrono::seconds(4)});
    at::manual_seed(3);
    const auto source = toys::table();
    const auto batches = plan_batches(config, 96, 2);
    Learner learner(config, batches, toys::network(), world);
    const toys::Folder folder;
    SlowFiles files;
    CheckpointKeeper keeper(
        folder.path + "/checkpoints",
        {.on_warning = [](const std::string& text) { throw std::runtime_error(text); },
         .files = &files});
    Trainer trainer(config, source, batches, learner, world,
                    {.keeper = rank == 0 ? &keeper : nullptr});
    const auto outcome = trainer.run();
    if (outcome.position.step != 2 || !keeper.finish()) {
      throw std::runtime_error("it did not train to its end");
    }
    if (rank == 0 && !files.is_slow_no_more) {
      throw std::runtime_error("nothing was slow");
    }
  }));
}

struct SlowSeen : Observer {
  void on_step(const Position& position) override { step = position.step; }
  void on_slow_rank(const std::string& text) override { said.emplace_back(step, text); }
  void on_interval(const Interval& interval) override {
    lines.emplace_back(step, interval.slow_rank);
  }
  std::int64_t step = 0;
  std::vector<std::pair<std::int64_t, std::string>> said;
  std::vector<std::pair<std::int64_t, std::string>> lines;
};

// Two ranks train 24 steps, and rank 1 is slow; throws if `check` of what rank 0 has seen is false.
void train_with_a_slow_rank(std::int64_t log_interval, bool (*check)(const SlowSeen& seen)) {
  spawn(2, [&](int rank) {
    const TrainConfig config{.batch_size = 2, .epochs = 1, .log_interval = log_interval};
    const Group world = init_process_group();
    at::set_num_threads(1);  // Nobody is slow by the load of other tests.
    at::manual_seed(3);
    const auto source = toys::table();
    const auto batches = plan_batches(config, 96, 2);
    Learner learner(config, batches, toys::network(), world);
    SlowSeen seen;
    TrainerOptions options;
    if (rank == 0) {
      options.observers = {&seen};
    } else {
      options.each = [](std::int64_t) {
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
      };
    }
    Trainer trainer(config, source, batches, learner, world, options);
    (void)trainer.run();
    if (rank == 0 && !check(seen)) {
      throw std::runtime_error("rank 1 was named " + std::to_string(seen.said.size()) +
                               " times between lines, and the first line has '" +
                               seen.lines.at(0).second + "'");
    }
  });
}

bool has_name_and_table(const std::string& text) {
  return text.starts_with("rank 1 is slow: ") && text.find("work/step") != std::string::npos;
}

// However rarely lines are logged.
TEST(Trainer, ASlowRankIsNamedAfter20Steps) {
  EXPECT_NO_THROW(train_with_a_slow_rank(1000, [](const SlowSeen& seen) {
    return seen.said.size() == 1 && seen.said[0].first == 20 &&
           has_name_and_table(seen.said[0].second);
  }));
}

TEST(Trainer, ASlowRankIsNamedWithTheTableByTheLineOfTheLogThatIsFirst) {
  EXPECT_NO_THROW(train_with_a_slow_rank(20, [](const SlowSeen& seen) {
    return seen.said.empty() && seen.lines.size() == 2 && seen.lines[0].first == 20 &&
           has_name_and_table(seen.lines[0].second) && !has_name_and_table(seen.lines[1].second) &&
           seen.lines[1].second.starts_with("rank 1 is slow: ");
  }));
}

TEST(Trainer, ASignalInTheValidationLeavesTheCheckpointBeforeIt) {
  ToyRun whole(kShort);
  (void)whole.trainer->run();
  const toys::Folder folder;
  CheckpointKeeper keeper(folder.path + "/checkpoints",
                          {.on_warning = [](const std::string& text) { FAIL() << text; }});
  int asked = 0;  // 12 steps, and the second of four batches.
  TrainerOptions options{.keeper = &keeper, .signal = [&] { return ++asked > 13 ? SIGTERM : 0; }};
  ToyRun first(kShort, options);
  const auto outcome = first.trainer->run();
  EXPECT_EQ(outcome.stopped_by, SIGTERM);
  EXPECT_EQ(asked, 14);
  EXPECT_THAT(first.seen.epochs, ::testing::IsEmpty());
  EXPECT_TRUE(keeper.finish());
  ToyRun second(kShort);
  second.trainer->resume(load_checkpoint(folder.path + "/checkpoints").checkpoint);
  (void)second.trainer->run();
  EXPECT_EQ(second.seen.losses.size(), 12U);
  EXPECT_EQ(second.seen.rows, whole.seen.rows);
}

TEST(Trainer, TheTestPartIsScoredOnceBehindTheLastEpoch) {
  ToyRun without(kShort);
  const auto plain = without.trainer->run();
  EXPECT_FALSE(plain.test);
  EXPECT_THAT(without.seen.tests, ::testing::IsEmpty());
  ToyRun run(kShort, {}, 21);
  const auto outcome = run.trainer->run();
  ASSERT_TRUE(outcome.test);
  EXPECT_EQ(outcome.test->samples, 21);
  EXPECT_THAT(run.seen.tests, ::testing::ElementsAre(::testing::Pair(2, 21)));
  EXPECT_THAT(run.seen.epochs, ::testing::ElementsAre(30, 30));
  EXPECT_EQ(run.seen.rows, without.seen.rows) << "what is learned does not depend on it";
  ToyRun early({.batch_size = 8, .epochs = 50, .lr = 1e-12, .early_stop = 2}, {}, 21);
  EXPECT_TRUE(early.trainer->run().early);
  EXPECT_THAT(early.seen.tests, ::testing::ElementsAre(::testing::Pair(3, 21)));
}

TEST(Trainer, AllRanksTogetherTestEverySampleOnce) {
  EXPECT_NO_THROW(spawn(2, [](int) {
    const TrainConfig config{.batch_size = 8, .epochs = 1};
    const Group world = init_process_group();
    at::manual_seed(3);
    const auto source = toys::table(96, 30, 17);
    const auto batches = plan_batches(config, 96, 2);
    Learner learner(config, batches, toys::network(), world);
    Trainer trainer(config, source, batches, learner, world, {});
    if (trainer.run().test.value().samples != 17) {
      throw std::runtime_error("it did not see 17 samples");
    }
  }));
}

TEST(Trainer, ASignalInTheTestLeavesItToTheNextStart) {
  ToyRun whole(kShort, {}, 21);
  const auto expected = whole.trainer->run();
  const toys::Folder folder;
  CheckpointKeeper keeper(folder.path + "/checkpoints",
                          {.on_warning = [](const std::string& text) { FAIL() << text; }});
  int asked = 0;  // Twice 12 steps and 4 batches of validation, and one of the test's 3.
  TrainerOptions options{.keeper = &keeper, .signal = [&] { return ++asked > 33 ? SIGTERM : 0; }};
  ToyRun first(kShort, options, 21);
  const auto stopped = first.trainer->run();
  EXPECT_EQ(stopped.stopped_by, SIGTERM);
  EXPECT_FALSE(stopped.test);
  EXPECT_THAT(first.seen.tests, ::testing::IsEmpty());
  EXPECT_EQ(stopped.position.epoch, 2);
  EXPECT_TRUE(keeper.finish());
  for (int i = 0; i < 2; ++i) {  // Training is finished: as often as one likes.
    ToyRun second(kShort, {}, 21);
    second.trainer->resume(load_checkpoint(folder.path + "/checkpoints").checkpoint);
    const auto outcome = second.trainer->run();
    EXPECT_EQ(outcome.stopped_by, 0);
    EXPECT_THAT(second.seen.losses, ::testing::IsEmpty());
    ASSERT_TRUE(outcome.test);
    EXPECT_EQ(outcome.test->loss, expected.test->loss);
    EXPECT_EQ(outcome.test->top1, expected.test->top1);
  }
}

TEST(Trainer, EarlyStopEndsWithoutProgress) {
  ToyRun run({.batch_size = 8, .epochs = 50, .lr = 1e-12, .early_stop = 2});
  const auto outcome = run.trainer->run();
  EXPECT_TRUE(outcome.early);
  EXPECT_EQ(outcome.position.epoch, 3);
}

}  // namespace
}  // namespace lockstep::train
