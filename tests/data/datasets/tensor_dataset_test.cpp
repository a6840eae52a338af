#include "lockstep/data/datasets/tensor_dataset.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(TensorDataset, SamplesAreRows) {
  const at::Tensor data = at::arange(12, at::kFloat).view({4, 3});
  const TensorDataset dataset(data, at::arange(4, at::kLong));
  EXPECT_EQ(dataset.size(), 4);
  EXPECT_TRUE(at::equal(dataset.get(2).data, data[2]));
  EXPECT_EQ(dataset.get(2).target.item<std::int64_t>(), 2);
  EXPECT_EQ(dataset.get(2).data.data_ptr(), data[2].data_ptr());  // No copy.
  EXPECT_FALSE(TensorDataset(data).get(0).target.defined());
}

TEST(TensorDataset, WhatDoesNotFitIsNamed) {
  EXPECT_THAT([] { TensorDataset(at::zeros({3, 2}), at::zeros({4})); },
              ThrowsMessage<UsageError>(HasSubstr("3 samples and 4 targets")));
  EXPECT_THAT([] { TensorDataset(at::zeros({})); },
              ThrowsMessage<UsageError>(HasSubstr("a tensor has no dimension")));
  EXPECT_THAT([] { (void)TensorDataset(at::zeros({3})).get(3); },
              ThrowsMessage<UsageError>(HasSubstr("TensorDataset: index 3 is out of range")));
}

}  // namespace
}  // namespace lockstep::data
