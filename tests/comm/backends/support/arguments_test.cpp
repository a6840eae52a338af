#include "lockstep/comm/backends/support/arguments.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

namespace lockstep::comm {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Arguments, TwoTensorsForOneRankAreRefused) {
  const std::vector<at::Tensor> one{at::zeros({1})};
  EXPECT_TRUE(only(one, "call").is_same(one[0]));
  const std::vector<at::Tensor> two{one[0], one[0]};
  EXPECT_THAT([&] { only(two, "call"); },
              ThrowsMessage<UsageError>(HasSubstr("call: there are 2 tensors, expected one")));
}

TEST(Arguments, ARankOutsideTheGroupIsNamedWithItsRole) {
  EXPECT_NO_THROW(require_rank(1, 2, "root", "call"));
  EXPECT_THAT([] { require_rank(2, 2, "root", "call"); },
              ThrowsMessage<UsageError>(HasSubstr("the root is 2, expected 0 to 1")));
}

TEST(Arguments, EveryInputNeedsAnOutput) {
  EXPECT_NO_THROW(require_as_many(1, 1, "inputs", "call"));
  EXPECT_THAT([&] { require_as_many(1, 2, "inputs", "call"); },
              ThrowsMessage<UsageError>(HasSubstr("call: there are 1 outputs for 2 inputs")));
}

TEST(Arguments, AnExpandedTensorIsNotWritten) {
  EXPECT_NO_THROW(require_separate_elements(at::zeros({3, 4}).t(), "call"));
  EXPECT_THAT([] { require_separate_elements(at::zeros({1}).expand({4}), "call"); },
              ThrowsMessage<UsageError>(HasSubstr("call: several elements")));
}

TEST(Arguments, OutputsThatShareMemoryAreNotWritten) {
  const auto matrix = at::zeros({4, 4});
  EXPECT_NO_THROW(require_no_overlap({.writes = matrix.unbind(1)}, "call"));
  EXPECT_THAT([&] { require_no_overlap({.writes = {matrix[0], matrix[1], matrix[1]}}, "call"); },
              ThrowsMessage<UsageError>(HasSubstr("call: outputs 1 and 2 share memory")));
}

TEST(Arguments, AnInputMayShareMemoryWithNoOutput) {
  const auto matrix = at::zeros({4, 4});
  EXPECT_NO_THROW(
      require_no_overlap({.writes = {matrix[0]}, .reads = {matrix[1], matrix[1]}}, "call"));
  EXPECT_NO_THROW(
      require_no_overlap({.writes = {matrix[0]}, .reads = {at::zeros({1}).expand({4})}}, "call"));
  EXPECT_THAT([&] { require_no_overlap({.writes = {matrix[0]}, .reads = {matrix}}, "call"); },
              ThrowsMessage<UsageError>(HasSubstr("call: an input shares memory")));
}

TEST(Arguments, OnlyThisRanksInputMayBeItsOutput) {
  const auto matrix = at::zeros({2, 4});
  const auto check = [&](const at::Tensor& output, int rank) {
    Access access{.writes = {output}};
    access.read(matrix.unbind(), rank, output);
    require_no_overlap(access, "call");
  };
  EXPECT_NO_THROW(check(matrix[1], 1));
  EXPECT_THROW(check(matrix[0], 1), UsageError);
  EXPECT_THROW(check(matrix[1].narrow(0, 0, 2), 1), UsageError);
}

TEST(Arguments, AGatheredInputMayBeItsPartOfTheOutput) {
  const auto matrix = at::zeros({2, 4});
  const auto check = [&](const at::Tensor& input) {
    Access access;
    access.gather(matrix, input, 1);
    require_no_overlap(access, "call");
  };
  EXPECT_NO_THROW(check(matrix[1]));
  EXPECT_NO_THROW(check(at::zeros({4})));
  EXPECT_THROW(check(matrix[0]), UsageError);
  EXPECT_THROW(check(matrix.view({8}).narrow(0, 3, 4)), UsageError);
}

TEST(Arguments, AListNeedsOneTensorPerRankOfOneDtype) {
  const auto ints = at::zeros({1}, at::kLong);
  const auto floats = at::zeros({1});
  EXPECT_NO_THROW(require_one_per_rank({ints, ints}, 2, ints, "call"));
  EXPECT_THAT([&] { require_one_per_rank({ints}, 2, ints, "call"); },
              ThrowsMessage<UsageError>(HasSubstr("expected one per rank: 2")));
  EXPECT_THAT([&] { require_one_per_rank({ints, floats}, 2, ints, "call"); },
              ThrowsMessage<UsageError>(HasSubstr("a tensor is Float, expected Long")));
}

TEST(Arguments, PartsAreEqualOrRefused) {
  const auto parts = parts_of(at::arange(6).view({3, 2}), 2, "call");
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_TRUE(parts[1].equal(at::arange(3, 6)));
  EXPECT_THAT([] { parts_of(at::arange(7), 2, "call"); },
              ThrowsMessage<UsageError>(HasSubstr("7 elements, expected a multiple of the 2")));
}

TEST(Arguments, SplitsFollowTheFirstDimension) {
  const auto rows = at::arange(6).view({3, 2});
  EXPECT_EQ(split_of(rows, {1, 2}, 2, "call")[1].size(0), 2);
  EXPECT_THAT([&] { split_of(rows, {}, 2, "call"); },
              ThrowsMessage<UsageError>(HasSubstr("the first dimension is 3")));
  EXPECT_THAT([&] { split_of(rows, {1, 1}, 2, "call"); },
              ThrowsMessage<UsageError>(HasSubstr("do not add up")));
}

}  // namespace
}  // namespace lockstep::comm
