#include "lockstep/parallel/buckets/reduction.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/parallel/buckets/averages.h"

namespace lockstep::parallel {
namespace {

using Divide = Average::Divide;
using testing::average_of;

// Two gradients of 1 in a bucket.
struct TwoGradients {
  at::Tensor flat = at::ones({4});
  std::vector<at::Tensor> places = flat.chunk(2);
};

double factor_of(const c10d::ReduceOp& op) {
  return dynamic_cast<const c10d::NCCLPreMulSumSupplement&>(*op.supplement_).double_factor;
}

TEST(Average, DividesGradientsThatAreCopiedIn) {
  const TwoGradients bucket;
  c10d::ReduceOp op;
  const auto average = average_of(4, Divide::kBefore, &op);
  EXPECT_FALSE(average->leaves_gradients());
  average->copy_in(0, bucket.places[0], at::full({2}, 2.0F));
  average->added_in_place(1, bucket.places[1]);
  const auto work = average->start(bucket.flat, bucket.places);
  EXPECT_EQ(op, c10d::ReduceOp::SUM);
  EXPECT_TRUE(work->result().front().equal(at::tensor({.5F, .5F, .25F, .25F})));
}

TEST(Average, LeavesTheDivisionToTheSum) {
  const TwoGradients bucket;
  c10d::ReduceOp op;
  const auto average = average_of(4, Divide::kInSum, &op);
  EXPECT_TRUE(average->leaves_gradients());
  average->copy_in(0, bucket.places[0], at::full({2}, 2.0F));
  average->made_in_place(1);
  average->start(bucket.flat, bucket.places);
  EXPECT_EQ(op, c10d::ReduceOp::PREMUL_SUM);
  EXPECT_EQ(factor_of(op), 0.25);
  EXPECT_TRUE(bucket.flat.equal(at::tensor({2.F, 2.F, 1.F, 1.F})));
}

TEST(Average, DividesByAnotherNumberIfToldSo) {
  for (const auto divide : {Divide::kBefore, Divide::kInSum}) {
    const TwoGradients bucket;
    c10d::ReduceOp op;
    const auto average = average_of(4, divide, &op);
    average->set_divisor(2);
    average->copy_in(0, bucket.places[0], at::full({2}, 2.0F));
    average->added_in_place(1, bucket.places[1]);
    average->start(bucket.flat, bucket.places);
    EXPECT_TRUE(bucket.flat.equal(at::tensor({1.F, 1.F, .5F, .5F})));
  }
  const TwoGradients bucket;
  c10d::ReduceOp op;
  const auto average = average_of(4, Divide::kInSum, &op);
  average->set_divisor(2.5);
  average->copy_in(0, bucket.places[0], at::full({2}, 2.0F));
  average->made_in_place(1);
  average->start(bucket.flat, bucket.places);
  EXPECT_EQ(factor_of(op), 1 / 2.5);
}

TEST(Average, AddsZerosWithAnInfiniteDivisorWhateverTheGradients) {
  for (const auto divide : {Divide::kBefore, Divide::kInSum}) {
    const TwoGradients bucket;
    c10d::ReduceOp op;
    const auto average = average_of(4, divide, &op);
    average->set_divisor(std::numeric_limits<double>::infinity());
    average->copy_in(0, bucket.places[0], at::full({2}, std::nanf("")));
    average->made_in_place(1);
    average->start(bucket.flat, bucket.places);
    EXPECT_TRUE(bucket.flat.eq(0).all().item<bool>());
    EXPECT_EQ(op, divide == Divide::kInSum ? c10d::ReduceOp::PREMUL_SUM : c10d::ReduceOp::SUM);
  }
}

TEST(Average, DividesAllWhereOneIsDividedInPlace) {
  const TwoGradients bucket;
  c10d::ReduceOp op;
  const auto average = average_of(4, Divide::kInSum, &op);
  average->added_in_place(0, bucket.places[0]);
  average->made_in_place(1);
  average->start(bucket.flat, bucket.places);
  EXPECT_EQ(op, c10d::ReduceOp::PREMUL_SUM) << "the operation of ranks that divided nothing";
  EXPECT_EQ(factor_of(op), 1);
  EXPECT_TRUE(bucket.flat.eq(0.25).all().item<bool>());
  for (std::size_t i = 0; i < 2; ++i) {  // The next step.
    average->made_in_place(i);
  }
  average->start(bucket.flat, bucket.places);
  EXPECT_EQ(op, c10d::ReduceOp::PREMUL_SUM);
}

TEST(Average, CopiesManyAtOnce) {
  const TwoGradients bucket;
  const std::vector<at::Tensor> gradients{at::full({2}, 2.0F), at::full({2}, 4.0F)};
  average_of(4, Divide::kBefore)->copy_all_in(bucket.places, gradients);
  EXPECT_TRUE(bucket.flat.equal(at::tensor({.5F, .5F, 1.F, 1.F})));
  average_of(4, Divide::kInSum)->copy_all_in(bucket.places, gradients);
  EXPECT_TRUE(bucket.flat.equal(at::tensor({2.F, 2.F, 4.F, 4.F})));
}

}  // namespace
}  // namespace lockstep::parallel
