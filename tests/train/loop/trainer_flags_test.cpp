// Flags that change how a training is run, and not what it computes.
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/train/loop/trainer.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

// Returns how often it asked whether to stop: before each of 12 steps and each batch of validation.
int asked_in_one_epoch(const TrainConfig& config, const DataSource& source = toys::table()) {
  const auto world = init_process_group();
  const auto batches = plan_batches(config, source.train->size(), 1);
  Learner learner(config, batches, toys::network(), world);
  int asked = 0;
  TrainerOptions options;
  options.signal = [&] {
    ++asked;
    return 0;
  };
  Trainer(config, source, batches, learner, world, options).run();
  return asked;
}

TEST(TrainerFlags, ValidationBatchSizeIsThatOfTheValidationAlone) {
  const TrainConfig plain{.batch_size = 8, .epochs = 1};
  auto small = plain;
  small.validation_batch_size = 5;
  // 30 rows are 4 batches of 8, and 6 batches of 5.
  EXPECT_EQ(asked_in_one_epoch(small) - asked_in_one_epoch(plain), 2);
}

// Samples wait until so many threads load; a thread that is missing costs ten seconds.
class MeetingRows : public data::Dataset {
 public:
  MeetingRows(std::shared_ptr<const data::Dataset> rows, std::size_t threads)
      : rows_(std::move(rows)), expected_(threads) {}

  [[nodiscard]] std::int64_t size() const override { return rows_->size(); }
  [[nodiscard]] data::Sample get(std::int64_t index) const override {
    {
      std::unique_lock lock(mutex_);
      threads_.insert(std::this_thread::get_id());
      arrived_.notify_all();
      const auto all = [&] { return threads_.size() >= expected_; };
      are_all_there_ = arrived_.wait_until(lock, deadline_, all);
    }
    return rows_->get(index);
  }
  // Once nobody loads any more.
  [[nodiscard]] const std::set<std::thread::id>& threads() const { return threads_; }
  [[nodiscard]] bool were_all_there() const { return are_all_there_; }

 private:
  std::shared_ptr<const data::Dataset> rows_;
  std::size_t expected_;
  std::chrono::steady_clock::time_point deadline_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(10);
  mutable std::mutex mutex_;
  mutable std::condition_variable arrived_;
  mutable std::set<std::thread::id> threads_;
  mutable bool are_all_there_ = false;
};

TEST(TrainerFlags, WorkersAreThreadsThatLoad) {
  for (const int workers : {0, 2, 3}) {
    auto source = toys::table();
    const std::size_t threads = workers == 0 ? 1 : static_cast<std::size_t>(workers);
    const auto rows = std::make_shared<MeetingRows>(source.train, threads);
    source.train = rows;
    asked_in_one_epoch({.workers = workers, .batch_size = 8, .epochs = 1}, source);
    EXPECT_TRUE(rows->were_all_there());
    EXPECT_EQ(rows->threads().size(), threads);
    EXPECT_EQ(rows->threads().contains(std::this_thread::get_id()), workers == 0);
  }
}

struct TwoBranches : torch::nn::Module {
  TwoBranches() {
    at::manual_seed(1);
    used = register_module("used", torch::nn::Linear(4, 3));
    unused = register_module("unused", torch::nn::Linear(4, 3));
  }
  at::Tensor forward(const at::Tensor& rows) { return used->forward(rows); }

  torch::nn::Linear used{nullptr};
  torch::nn::Linear unused{nullptr};
};

void train_two_branches(const TrainConfig& config) {
  spawn(2, [&](int /*rank*/) {
    const auto world = init_process_group();
    at::manual_seed(3);
    const auto source = toys::table();
    const auto batches = plan_batches(config, source.train->size(), 2);
    Learner learner(config, batches,
                    std::make_shared<models::Network>(std::make_shared<TwoBranches>()), world);
    const auto unused = learner.module().named_parameters()["unused.weight"].clone();
    const auto used = learner.module().named_parameters()["used.weight"].clone();
    (void)Trainer(config, source, batches, learner, world, {}).run();
    const auto parameters = learner.module().named_parameters();
    if (parameters["used.weight"].equal(used) || !parameters["unused.weight"].equal(unused)) {
      throw UsageError("the branch that is used was to be trained, and no other");
    }
  });
}

TEST(TrainerFlags, FindUnusedParametersTrainsANetworkWithAnUnusedBranch) {
  TrainConfig config{.batch_size = 8, .epochs = 1};
  EXPECT_THAT(
      [&] { train_two_branches(config); },
      ::testing::ThrowsMessage<PeerError>(::testing::AllOf(
          ::testing::HasSubstr("2 of 4 parameters got no gradient"),
          ::testing::HasSubstr("unused.weight"), ::testing::HasSubstr("find_unused_parameters"))));
  config.find_unused_parameters = true;
  EXPECT_NO_THROW(train_two_branches(config));
}

}  // namespace
}  // namespace lockstep::train
