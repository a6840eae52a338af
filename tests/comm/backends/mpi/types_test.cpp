#include "lockstep/comm/backends/mpi/types.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(MpiTypes, MoreElementsThanAnIntCountsAreRefused) {
  EXPECT_EQ(mpi_count(2147483647, "send"), 2147483647);
  EXPECT_THAT([] { mpi_count(2147483648, "send"); },
              ThrowsMessage<UsageError>(HasSubstr("send: there are 2147483648 elements")));
}

TEST(MpiTypes, ASplitTellsWhereEachPartBegins) {
  const auto split = mpi_split({at::zeros({2, 2}), at::zeros({0}), at::zeros({3})}, "call");
  EXPECT_THAT(split.counts, ElementsAre(4, 0, 3));
  EXPECT_THAT(split.offsets, ElementsAre(0, 4, 4));
}

TEST(MpiTypes, HalfTheWidthTravelsAsFloatsAndTheRestAsItself) {
  const MpiLibrary mpi;
  const auto travels_as = [&](at::ScalarType dtype) {
    return mpi_reduction(mpi, c10d::ReduceOp::SUM, at::zeros({1}, dtype), "call").travels_as;
  };
  EXPECT_EQ(travels_as(at::kHalf), at::kFloat);
  EXPECT_EQ(travels_as(at::kBFloat16), at::kFloat);
  EXPECT_EQ(travels_as(at::kShort), at::kShort);
}

TEST(MpiTypes, APremultipliedSumIsRefusedByName) {
  const MpiLibrary mpi;
  c10d::ReduceOp op;
  op.op_ = c10d::ReduceOp::PREMUL_SUM;
  EXPECT_THAT([&] { mpi_reduction(mpi, op, at::zeros({1}), "all_reduce on rank 0"); },
              ThrowsMessage<UsageError>(HasSubstr("all_reduce on rank 0: MPI has no premul_sum")));
}

TEST(MpiTypes, WhatLiesPackedTravelsWithoutACopy) {
  const auto whole = at::arange(6).view({2, 3});
  EXPECT_TRUE(travelling(whole, at::kLong).is_same(whole));
  EXPECT_TRUE(travelling(whole.t(), at::kLong).is_contiguous());
}

}  // namespace
}  // namespace lockstep::comm
