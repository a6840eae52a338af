#include "lockstep/data/datasets/gather_rows.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <vector>

namespace lockstep::data {
namespace {

// What index_select gives, for the same indices.
void expect_selected(const at::Tensor& rows, const std::vector<std::int64_t>& indices) {
  const at::Tensor expected = at::index_select(rows, 0, at::tensor(indices, at::kLong));
  const at::Tensor gathered = gather_rows(rows, indices);
  EXPECT_TRUE(gathered.equal(expected));
  EXPECT_EQ(gathered.dtype(), expected.dtype());
  EXPECT_EQ(gathered.sizes(), expected.sizes());
}

TEST(GatherRows, GivesWhatIndexSelectGives) {
  const std::vector<std::int64_t> indices{4, 0, 4, 2};
  expect_selected(at::randn({5, 3, 2}), indices);
  expect_selected(at::randint(100, {5}, at::kLong), indices);  // 8 bytes a row.
  expect_selected(at::randn({5, 2}), indices);                 // The same, as two floats.
  expect_selected(at::randint(100, {5}, at::kByte), indices);
  expect_selected(at::randn({3, 5}).t(), indices);  // Not contiguous.
  expect_selected(at::randn({5, 0}), indices);
  expect_selected(at::randn({5, 3}), {});
}

TEST(GatherRows, TheRowsAreACopy) {
  const at::Tensor rows = at::randn({2, 2});
  const at::Tensor before = rows.clone();
  gather_rows(rows, std::vector<std::int64_t>{0, 1}).zero_();
  EXPECT_TRUE(rows.equal(before));
}

}  // namespace
}  // namespace lockstep::data
