#include "lockstep/data/loader/batch_maker.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/scalar_tensor.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/combined_datasets.h"
#include "lockstep/data/datasets/tensor_dataset.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::int64_t> numbers_of(const at::Tensor& tensor) {
  const auto* values = tensor.const_data_ptr<std::int64_t>();
  return {values, values + tensor.numel()};
}

// Sample i is i; sample 13 throws something.
class Unlucky : public Dataset {
 public:
  using Fault = std::function<void()>;
  explicit Unlucky(Fault fault) : fault_(std::move(fault)) {}
  [[nodiscard]] std::int64_t size() const override { return 100; }
  [[nodiscard]] Sample get(std::int64_t index) const override {
    if (index == 13) {
      fault_();
    }
    return {at::scalar_tensor(index, at::kLong), {}};
  }

 private:
  Fault fault_;
};

// Sample i of epoch e with seed s is s, e, i: what random transforms would see.
class DrawnNumbers : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 10; }
  [[nodiscard]] Sample get(std::int64_t /*index*/) const override { return {}; }
  [[nodiscard]] Sample get_in_epoch(std::int64_t index, const EpochSeed& epoch) const override {
    at::Tensor drawn = at::arange(3, at::kLong);
    drawn[0] = static_cast<std::int64_t>(epoch.seed);
    drawn[1] = epoch.epoch;
    drawn[2] = index;
    return {drawn, {}};
  }
};

EpochPlan plan_of(std::vector<std::int64_t> indices, const EpochSeed& seed = {}) {
  return {std::move(indices), 2, /*drop_last=*/false, seed};
}

TEST(BatchMaker, TakesWholeBatchesFromADataSetThatHasThem) {
  class OnlyBatches : public TensorDataset {
   public:
    using TensorDataset::TensorDataset;
    [[nodiscard]] Sample get(std::int64_t /*index*/) const override {
      throw Error("a single sample was asked for");
    }
  };
  const auto whole = std::make_shared<OnlyBatches>(at::arange(100, at::kLong));
  EXPECT_THAT(numbers_of(BatchMaker(whole, {}).make(plan_of({7, 3, 5}), 0).data),
              ElementsAre(7, 3));
  const auto part = std::make_shared<Subset>(whole, std::vector<std::int64_t>{40, 50, 60});
  EXPECT_THAT(numbers_of(BatchMaker(part, {}).make(plan_of({2, 0}), 0).data), ElementsAre(60, 40));
}

TEST(BatchMaker, GivesSeedEpochAndIndexToEachSample) {
  const auto drawing = std::make_shared<DrawnNumbers>();
  const EpochSeed seed{.seed = 8, .epoch = 5};
  EXPECT_THAT(numbers_of(BatchMaker(drawing, {}).make(plan_of({7, 3, 4}, seed), 1).data),
              ElementsAre(8, 5, 4));
  const auto part = std::make_shared<Subset>(drawing, std::vector<std::int64_t>{9, 6});
  EXPECT_THAT(numbers_of(BatchMaker(part, {}).make(plan_of({1}, seed), 0).data),
              ElementsAre(8, 5, 6));
  const auto twice = std::make_shared<ConcatDataset>(
      std::vector<std::shared_ptr<const Dataset>>{drawing, drawing});
  EXPECT_THAT(numbers_of(BatchMaker(twice, {}).make(plan_of({14}, seed), 0).data),
              ElementsAre(9, 5, 4))
      << "the second data set draws other numbers";
}

TEST(BatchMaker, GivesSamplesInOrderToACollateFn) {
  const BatchMaker maker(std::make_shared<TensorDataset>(at::arange(100, at::kLong)),
                         [](const std::vector<Sample>& samples) {
                           return Sample{samples.at(0).data * 100 + samples.at(1).data, {}};
                         });
  EXPECT_EQ(maker.make(plan_of({7, 3}), 0).data.item<std::int64_t>(), 703);
}

TEST(BatchMaker, AnErrorNamesBatchAndSampleAndKeepsItsType) {
  const auto made = [](Unlucky::Fault fault) {
    return [fault = std::move(fault)] {
      (void)BatchMaker(std::make_shared<Unlucky>(fault), {}).make(plan_of({1, 2, 3, 13}), 1);
    };
  };
  EXPECT_THAT(
      made([] { throw IoError("image '/data/x.jpg': it is empty"); }),
      ThrowsMessage<IoError>("DataLoader: batch 1, sample 13: image '/data/x.jpg': it is empty"));
  EXPECT_THAT(made([] { throw UsageError("no"); }),
              ThrowsMessage<UsageError>("DataLoader: batch 1, sample 13: no"));
  EXPECT_THAT(made([] { throw std::out_of_range("far"); }),
              ThrowsMessage<Error>("DataLoader: batch 1, sample 13: far"));
  try {
    made([] { throw std::out_of_range("far"); })();
  } catch (const Error& error) {
    EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range) << "the original is inside";
  }
}

TEST(BatchMaker, AnErrorOfTheWholeBatchNamesIt) {
  const auto tensors = std::make_shared<TensorDataset>(at::arange(3, at::kLong));
  EXPECT_THAT([&] { (void)BatchMaker(tensors, {}).make(plan_of({1, 7}), 0); },
              ThrowsMessage<UsageError>(
                  HasSubstr("DataLoader: batch 0: TensorDataset: index 7 is out of range")));
  const BatchMaker maker(tensors, [](auto) -> Sample { throw IoError("cannot mix"); });
  EXPECT_THAT([&] { (void)maker.make(plan_of({1}), 0); },
              ThrowsMessage<IoError>("DataLoader: batch 0: cannot mix"));
}

}  // namespace
}  // namespace lockstep::data
