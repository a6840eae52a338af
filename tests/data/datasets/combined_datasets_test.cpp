#include "lockstep/data/datasets/combined_datasets.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/data/datasets/tensor_dataset.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// The numbers from `first` on.
std::shared_ptr<const Dataset> numbers(std::int64_t size, std::int64_t first = 0) {
  return std::make_shared<TensorDataset>(at::arange(first, first + size, at::kLong));
}

std::vector<std::int64_t> all_of(const Dataset& dataset) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    values.push_back(dataset.get(i).data.item<std::int64_t>());
  }
  return values;
}

TEST(Subset, HasTheGivenSamples) {
  const Subset subset(numbers(10, 100), {7, 0, 7});
  EXPECT_THAT(all_of(subset), ElementsAre(107, 100, 107));
  EXPECT_THAT([&] { (void)subset.get(3); },
              ThrowsMessage<UsageError>(HasSubstr("Subset: index 3 is out of range")));
  EXPECT_THAT([] { Subset(numbers(10), {10}); },
              ThrowsMessage<UsageError>(HasSubstr("Subset: index 10 is out of range")));
  EXPECT_THAT([] { Subset(nullptr, {}); },
              ThrowsMessage<UsageError>(HasSubstr("Subset: the data set is null")));
}

TEST(ConcatDataset, HasOneAfterAnother) {
  const ConcatDataset all({numbers(2, 10), numbers(0), numbers(3, 20)});
  EXPECT_THAT(all_of(all), ElementsAre(10, 11, 20, 21, 22));
  EXPECT_THAT([&] { (void)all.get(5); },
              ThrowsMessage<UsageError>(HasSubstr("ConcatDataset: index 5 is out of range")));
  EXPECT_THAT([] { ConcatDataset({}); },
              ThrowsMessage<UsageError>(HasSubstr("there are no data sets")));
  EXPECT_THAT([] { ConcatDataset({numbers(2), nullptr}); },
              ThrowsMessage<UsageError>(HasSubstr("ConcatDataset: the data set is null")));
}

TEST(ConcatDataset, GathersByBatchWhereAllAreInMemory) {
  // Without single samples.
  class OnlyBatches : public TensorDataset {
   public:
    using TensorDataset::TensorDataset;
    [[nodiscard]] Sample get(std::int64_t /*index*/) const override {
      throw Error("a single sample was asked for");
    }
  };
  const auto rows = [](std::int64_t first, std::int64_t count) {
    const at::Tensor tens = at::arange(first, first + 10 * count, 10, at::kLong);
    return std::make_shared<OnlyBatches>(at::stack({tens, tens + 1}, 1), tens);
  };
  const ConcatDataset all({rows(100, 3), rows(0, 0), rows(200, 2), rows(300, 4)});
  const auto gathered = [&](const std::vector<std::int64_t>& indices) {
    const auto batch = all.get_batch(indices, {});
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; batch && i < indices.size(); ++i) {
      values.push_back(batch->target[static_cast<std::int64_t>(i)].item<std::int64_t>());
      EXPECT_EQ(batch->data[static_cast<std::int64_t>(i)][0].item<std::int64_t>(), values.back());
      EXPECT_EQ(batch->data[static_cast<std::int64_t>(i)][1].item<std::int64_t>(),
                values.back() + 1);
    }
    return values;
  };
  EXPECT_THAT(gathered({8, 0, 3, 2, 8, 4, 1}), ElementsAre(330, 100, 200, 120, 330, 210, 110));
  EXPECT_THAT(gathered({1, 0}), ElementsAre(110, 100));
  EXPECT_THAT([&] { gathered({9}); },
              ThrowsMessage<UsageError>(HasSubstr("ConcatDataset: index 9 is out of range")));

  const auto wider = std::make_shared<TensorDataset>(at::arange(6, at::kLong).view({2, 3}));
  const std::vector<std::int64_t> both{0, 3};
  EXPECT_FALSE(ConcatDataset({rows(100, 3), wider}).get_batch(both, {})) << "shapes differ";
}

template <class Part>
std::vector<Part> read_parts(std::istream& fields, std::size_t count) {
  std::vector<Part> parts(count);
  for (auto& part : parts) {
    fields >> part;
  }
  return parts;
}

TEST(RandomSplit, GivesTheIndicesOfPython) {
  const test::TemporaryFolder folder;
  test::run_python("data/datasets/random_split.py", {folder.file("splits")});
  std::ifstream file(folder.file("splits"));
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    std::istringstream fields(line);
    std::int64_t size = 0;
    std::uint64_t seed = 0;
    bool fractions = false;
    std::size_t count = 0;
    fields >> size >> seed >> fractions >> count;
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const auto split =
        fractions ? random_split(numbers(size), read_parts<double>(fields, count), generator)
                  : random_split(numbers(size), read_parts<std::int64_t>(fields, count), generator);
    std::vector<std::int64_t> ours;
    for (const Subset& part : split) {
      ours.push_back(part.size());
    }
    for (const Subset& part : split) {
      ours.insert(ours.end(), part.indices().begin(), part.indices().end());
    }
    const std::vector<std::int64_t> expected{std::istream_iterator<std::int64_t>(fields), {}};
    ASSERT_EQ(ours, expected) << line.substr(0, 80);
  }
  EXPECT_EQ(lines, 300);
}

TEST(RandomSplit, PartsThatAreNotTheWholeAreRefused) {
  const auto split = [](const std::vector<std::int64_t>& lengths) {
    return [=] { random_split(numbers(10), lengths); };
  };
  EXPECT_THAT(split({5, 4}), ThrowsMessage<UsageError>(HasSubstr("do not add up")));
  EXPECT_THAT(split({5, 6}), ThrowsMessage<UsageError>(HasSubstr("do not add up")));
  EXPECT_THAT(split({12, -2}), ThrowsMessage<UsageError>(HasSubstr("or one is negative")));
  EXPECT_THAT([] { random_split(numbers(10), std::vector<double>{0.5, 0.4}); },
              ThrowsMessage<UsageError>(HasSubstr("the fractions sum to 0.9")));
  EXPECT_THAT([] { random_split(numbers(10), std::vector<double>{1.5, -0.5}); },
              ThrowsMessage<UsageError>(HasSubstr("fraction 0 is 1.5")));
}

}  // namespace
}  // namespace lockstep::data
