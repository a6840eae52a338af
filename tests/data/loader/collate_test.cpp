#include "lockstep/data/loader/collate.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Same values, type, shape and layout.
void expect_stacked(const std::vector<at::Tensor>& tensors) {
  std::vector<Sample> samples;
  for (const auto& tensor : tensors) {
    samples.push_back({tensor, {}});
  }
  const Sample batch = default_collate(samples);
  const at::Tensor expected = at::stack(tensors);
  EXPECT_TRUE(batch.data.equal(expected));
  EXPECT_EQ(batch.data.dtype(), expected.dtype());
  EXPECT_EQ(batch.data.strides(), expected.strides());
  EXPECT_FALSE(batch.target.defined());
}

TEST(DefaultCollate, StacksAsLibTorchDoes) {
  expect_stacked({at::randn({3, 4}), at::randn({3, 4}), at::randn({3, 4})});
  expect_stacked({at::scalar_tensor(7, at::kLong), at::scalar_tensor(8, at::kLong)});
  expect_stacked({at::zeros({0, 3}), at::zeros({0, 3})});
  expect_stacked({at::randn({4, 3}).t(), at::randn({3, 4})});            // Not contiguous.
  expect_stacked({at::arange(3, at::kInt), at::arange(3, at::kFloat)});  // Two types.
  expect_stacked({at::arange(9, at::kByte).view({3, 3}).select(0, 1)});  // A part.
}

TEST(DefaultCollate, StacksTargetsToo) {
  const Sample batch = default_collate({{at::zeros({2}), at::scalar_tensor(3, at::kLong)},
                                        {at::zeros({2}), at::scalar_tensor(5, at::kLong)}});
  EXPECT_EQ(batch.target.dtype(), at::kLong);
  EXPECT_EQ(batch.target[0].item<std::int64_t>(), 3);
  EXPECT_EQ(batch.target[1].item<std::int64_t>(), 5);
}

TEST(DefaultCollate, TheBatchHasMemoryOfItsOwn) {
  const at::Tensor data = at::zeros({1, 2});
  const Sample batch = default_collate({{data.select(0, 0), {}}});
  batch.data.fill_(1);
  EXPECT_EQ(data.sum().item<double>(), 0);
}

TEST(DefaultCollate, ShowsWhichSamplesDiffer) {
  EXPECT_THAT(
      [] {
        default_collate({{at::zeros({2, 3}), {}}, {at::zeros({2, 3}), {}}, {at::zeros({2}), {}}});
      },
      ThrowsMessage<UsageError>(HasSubstr(
          "the data of sample 0 of the batch is [2, 3] and of sample 2 [2], expected one shape")));
  EXPECT_THAT([] { default_collate({{at::zeros({2}), at::zeros({1})}, {at::zeros({2}), {}}}); },
              ThrowsMessage<UsageError>(
                  HasSubstr("the target of sample 0 of the batch is [1] and of sample 1 none")));
  EXPECT_THAT([] { default_collate({}); },
              ThrowsMessage<UsageError>(HasSubstr("there are no samples")));
}

}  // namespace
}  // namespace lockstep::data
