#include "lockstep/data/loader/mixup.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/data/datasets/tensor_dataset.h"
#include "lockstep/data/loader/data_loader.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data::mixup {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class MixingAsTorchvision : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TemporaryFolder;
    test::run_python("data/loader/mixup_cases.py", {folder_->file("")});
  }
  static void TearDownTestSuite() { delete folder_; }

  static inline test::TemporaryFolder* folder_ = nullptr;
};

// Takes the tensor's bytes from the front of the file.
at::Tensor take(std::string& file, at::IntArrayRef sizes, at::ScalarType type) {
  at::Tensor tensor = at::empty(sizes, type);
  std::memcpy(tensor.mutable_data_ptr(), file.data(), tensor.nbytes());
  file.erase(0, tensor.nbytes());
  return tensor;
}

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.contiguous();
  return {static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()};
}

TEST_F(MixingAsTorchvision, GivesTheSameFloats) {
  std::ifstream list(folder_->file("list"));
  std::map<std::string, int> seen;
  std::string number;
  std::string kind;
  std::array<std::int64_t, 4> shape{};
  std::int64_t classes = 0;
  bool probabilities = false;
  while (list >> number >> kind >> shape[0] >> shape[1] >> shape[2] >> shape[3] >> classes >>
         probabilities) {
    std::string file = read_file(folder_->file(number + ".in"));
    const at::Tensor images = take(file, shape, at::kFloat);
    const at::Tensor labels = probabilities ? take(file, {shape[0], classes}, at::kFloat)
                                            : take(file, {shape[0]}, at::kLong);
    const Sample before{images.clone(), labels.clone()};
    Sample result;
    if (kind == "MixUp") {
      double lambda = 0;
      list >> lambda;
      result = mixed_up(before, lambda, classes);
    } else {
      Box box;
      list >> box.left >> box.top >> box.width >> box.height;
      result = cut_and_mixed(before, box, classes);
    }
    EXPECT_TRUE(bytes_of(result.data) + bytes_of(result.target) ==
                read_file(folder_->file(number + ".out")))
        << "case " << number << ": " << kind;
    EXPECT_TRUE(before.data.equal(images) && before.target.equal(labels)) << "they were changed";
    ++seen[kind];
  }
  EXPECT_EQ(seen["MixUp"], 60);
  EXPECT_EQ(seen["CutMix"], 60);
}

// 10,000 draws each; see DrawsFromTheSameDistributions of the other transforms.
TEST_F(MixingAsTorchvision, DrawsFromTheSameDistributions) {
  constexpr std::size_t kDraws = 10'000;
  std::map<std::string, std::vector<std::vector<double>>> drawn;
  for (const auto& [name, alpha] : {std::pair("0.2", 0.2), {"1.0", 1.0}, {"2.5", 2.5}}) {
    std::vector<double> lambdas;
    std::vector<std::vector<double>> sides(4);
    for (std::size_t i = 0; i < kDraws; ++i) {
      auto random = SampleRandom::of_batch(2, 0, i);
      lambdas.push_back(get_params(MixUp{.alpha = alpha}, random));
      const Box box = get_params(CutMix{.alpha = alpha}, {90, 160}, random);
      for (const auto& [side, value] :
           {std::pair(0U, box.left), {1U, box.top}, {2U, box.width}, {3U, box.height}}) {
        sides[side].push_back(static_cast<double>(value));
      }
    }
    drawn["mixup-" + std::string(name)] = {std::move(lambdas)};
    drawn["cutmix-" + std::string(name)] = std::move(sides);
  }
  std::ifstream list(folder_->file("draws"));
  std::map<std::string, std::size_t> column;
  std::size_t columns = 0;
  for (std::string line; std::getline(list, line); ++columns) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    std::vector<double>& ours = drawn.at(name).at(column[name]++);
    std::ranges::sort(ours);
    double quantile = 0;
    int percent = 0;
    for (; words >> quantile; ++percent) {
      const auto below = std::ranges::lower_bound(ours, quantile - 1e-6) - ours.begin();
      const auto not_above = std::ranges::upper_bound(ours, quantile + 1e-6) - ours.begin();
      EXPECT_LE(static_cast<double>(below) / kDraws, percent / 100.0 + 0.025)
          << name << " " << column[name] << " " << quantile;
      EXPECT_GE(static_cast<double>(not_above) / kDraws, percent / 100.0 - 0.025)
          << name << " " << column[name] << " " << quantile;
    }
    EXPECT_EQ(percent, 101);
  }
  EXPECT_EQ(columns, 15U);
}

// Image i is all i, of class i % 3.
TensorDataset plain_images(std::int64_t count) {
  return TensorDataset(
      at::arange(count, at::kFloat).view({-1, 1, 1, 1}).expand({-1, 1, 4, 4}).contiguous(),
      at::arange(count, at::kLong).remainder(3));
}

DataLoaderOptions mixing(BatchTransform transform, std::int64_t ranks, std::int64_t rank) {
  return {.batch_size = 4,
          .sampler = DistributedSampler(32, ranks, rank, {.seed = 6}),
          .batch_transform = std::move(transform)};
}

std::vector<Sample> all_batches(DataLoader& loader) {
  std::vector<Sample> batches;
  for (auto& batch : loader) {
    batches.push_back(batch);
  }
  return batches;
}

bool equal(const std::vector<Sample>& one, const std::vector<Sample>& other) {
  return std::ranges::equal(one, other, [](const Sample& a, const Sample& b) {
    return a.data.equal(b.data) && a.target.equal(b.target);
  });
}

const RandomChoice& either() {
  static const RandomChoice kEither({MixUp{.num_classes = 3}, CutMix{.num_classes = 3}});
  return kEither;
}

TEST(BatchTransform, NumbersFollowFromSeedEpochAndBatchAlone) {
  DataLoader plain(plain_images(32), mixing(either(), 1, 0));
  const auto first = all_batches(plain);
  const auto second = all_batches(plain);
  ASSERT_EQ(first.size(), 8U);
  EXPECT_FALSE(equal(first, second)) << "each epoch draws anew";
  DataLoaderOptions options = mixing(either(), 1, 0);
  options.num_workers = 3;
  DataLoader workers(plain_images(32), options);
  EXPECT_TRUE(equal(all_batches(workers), first));
  EXPECT_TRUE(equal(all_batches(workers), second));
}

TEST(BatchTransform, ResumedEpochsGoOnWithTheSameNumbers) {
  DataLoader undisturbed(plain_images(32), mixing(either(), 2, 1));
  const auto all = all_batches(undisturbed);
  DataLoader stopped(plain_images(32), mixing(either(), 2, 1));
  SamplerPosition position;
  {
    auto batch = stopped.begin();
    ++batch;
    position = stopped.state_dict();
  }
  DataLoader resumed(plain_images(32), mixing(either(), 2, 1));
  resumed.load_state_dict(position);
  EXPECT_TRUE(equal(all_batches(resumed), {all.begin() + 2, all.end()}));
}

TEST(BatchTransform, BatchesAndRanksDrawDifferentNumbers) {
  std::mutex mutex;
  std::set<double> drawn;
  const auto look = [&](Sample batch, SampleRandom& random) {
    const std::lock_guard lock(mutex);
    drawn.insert(random.uniform());
    return batch;
  };
  for (const std::int64_t rank : {0, 1}) {
    DataLoader loader(plain_images(32), mixing(look, 2, rank));
    EXPECT_EQ(all_batches(loader).size(), 4U);
  }
  EXPECT_EQ(drawn.size(), 8U);
}

TEST(MixUp, LabelsStayProbabilities) {
  DataLoader loader(plain_images(32), mixing(either(), 1, 0));
  for (auto& [images, labels] : loader) {
    EXPECT_EQ(labels.sizes(), (std::vector<std::int64_t>{4, 3}));
    EXPECT_TRUE(labels.sum(1).allclose(at::ones({4})));
  }
}

TEST(RandomChoice, TakesEachAsOftenAsPSays) {
  const auto mark = [](float value) {
    return [value](Sample batch, SampleRandom&) {
      batch.data = at::ones({1}) * value;
      return batch;
    };
  };
  const RandomChoice choice({mark(0), mark(1), mark(2)}, {1, 0, 3});
  std::array<int, 3> counts{};
  for (std::uint64_t i = 0; i < 8000; ++i) {
    auto random = SampleRandom::of_batch(1, 0, i);
    ++counts.at(static_cast<std::size_t>(choice({}, random).data.item<float>()));
  }
  EXPECT_NEAR(counts[0], 2000, 200);
  EXPECT_EQ(counts[1], 0);
  EXPECT_THROW(RandomChoice({}), UsageError);
  EXPECT_THROW(RandomChoice({mark(0)}, {0}), UsageError);
  EXPECT_THROW(RandomChoice({mark(0)}, {1, 1}), UsageError);
}

TEST(MixUp, WhatTorchvisionRefusesIsRefused) {
  const at::Tensor images = at::rand({4, 3, 2, 2});
  const at::Tensor labels = at::zeros({4}, at::kLong);
  const auto refuses = [](const BatchTransform& transform, const Sample& batch,
                          const std::string& why) {
    auto random = SampleRandom::of_batch(1, 0, 0);
    EXPECT_THAT([&] { (void)transform(batch, random); }, ThrowsMessage<UsageError>(HasSubstr(why)));
  };
  refuses(MixUp{}, {images, labels}, "MixUp: labels are numbers of classes and num_classes is not");
  refuses(CutMix{}, {images, labels}, "CutMix: labels are numbers of classes");
  refuses(MixUp{.num_classes = 3}, {images, at::zeros({4, 5})}, "labels have 5 classes");
  refuses(CutMix{.num_classes = 3}, {images[0], labels}, "the images are [3, 2, 2]");
  refuses(CutMix{.num_classes = 3}, {images, {}}, "the labels are not there");
  refuses(CutMix{.num_classes = 3}, {images, at::zeros({3}, at::kLong)}, "4 images and 3 labels");
  refuses(CutMix{.num_classes = 3}, {images, labels + 3}, "labels from 3 to 3, expected 0 to");
  refuses(MixUp{.num_classes = 3}, {images, labels.to(at::kFloat)},
          "[4] of float, expected integers");
  refuses(CutMix{.num_classes = 3}, {images, labels.to(at::kBool)},
          "[4] of bool, expected integers");
  refuses(MixUp{.alpha = 0, .num_classes = 3}, {images, labels}, "alpha is 0");
  refuses(MixUp{.num_classes = 3}, {images.to(at::kByte), labels}, "expected floats");
}

TEST(CutMix, ImagesWithoutPixelsAreRefused) {
  const at::Tensor labels = at::zeros({4}, at::kLong);
  auto random = SampleRandom::of_batch(1, 0, 0);
  for (const at::Tensor& images : {at::rand({4, 3, 0, 2}), at::rand({4, 3, 2, 0})}) {
    EXPECT_THAT([&] { (void)CutMix{.num_classes = 3}({images, labels}, random); },
                ThrowsMessage<UsageError>(HasSubstr("expected one pixel or more")));
  }
  for (const Size size : {Size{0, 2}, Size{2, 0}}) {
    EXPECT_THAT([&] { (void)get_params(CutMix{}, size, random); },
                ThrowsMessage<UsageError>(HasSubstr("expected one or more")));
  }
}

// As torch's one_hot() takes them; smaller integers are the same classes.
TEST(MixUp, LabelsMayBeAnyIntegers) {
  const at::Tensor images = at::rand({4, 3, 2, 2});
  const at::Tensor labels = at::arange(4, at::kLong).remainder(3);
  const Sample expected = mixed_up({images, labels}, 0.3, 3);
  for (const at::ScalarType type : {at::kByte, at::kShort, at::kInt}) {
    EXPECT_TRUE(mixed_up({images, labels.to(type)}, 0.3, 3).target.equal(expected.target));
  }
}

}  // namespace
}  // namespace lockstep::data::mixup
