#include "lockstep/comm/backends/support/tensor_bytes.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/view_as_complex.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Packed, IsTheTensorItselfWhereThereAreNoGaps) {
  const auto tensor = at::arange(6);
  const Packed packed(tensor, Packed::Use::kReadWrite);
  EXPECT_EQ(static_cast<const void*>(packed.data()), tensor.data_ptr());
  EXPECT_EQ(packed.tensor().count, 6U);
}

TEST(Packed, WritesBackThroughGaps) {
  const auto whole = at::arange(6).view({2, 3});
  const Packed packed(whole.t(), Packed::Use::kReadWrite);
  auto* values = reinterpret_cast<std::int64_t*>(packed.data());
  EXPECT_EQ(values[1], 3);  // Packed in the order of the transposed tensor.
  values[1] = 30;
  packed.write_back();
  EXPECT_EQ(whole[1][0].item<std::int64_t>(), 30);
}

TEST(Packed, ResolvesALazyConjugate) {
  const auto pairs = at::arange(4, at::kFloat).view({2, 2});
  const auto conjugate = at::view_as_complex(pairs).conj();
  const Packed packed(conjugate, Packed::Use::kRead);
  EXPECT_EQ(reinterpret_cast<const float*>(packed.data())[1], -1.0F);
}

TEST(Packed, WritesIntoAParameter) {
  auto parameter = at::ones({2, 2}).t().requires_grad_(true);
  const Packed packed(parameter, Packed::Use::kReadWrite);
  EXPECT_NO_THROW(packed.write_back());
}

TEST(ShmFold, RefusesWhatHasNoMeaning) {
  EXPECT_THAT([] { shm_fold(c10d::ReduceOp::BAND, at::ones({1}), "all_reduce"); },
              ThrowsMessage<UsageError>(HasSubstr("band is not defined for Float")));
  EXPECT_THAT([] { shm_fold(c10d::ReduceOp::MAX, at::ones({1}, at::kComplexFloat), "all_reduce"); },
              ThrowsMessage<UsageError>(HasSubstr("max is not defined for ComplexFloat")));
}

TEST(ShmFold, KnowsTheFactorOfAPremultipliedSum) {
  const auto fold =
      shm_fold(lockstep::testing::premultiplied_sum(0.25), at::ones({1}), "all_reduce");
  EXPECT_EQ(fold.factor, 0.25);
}

}  // namespace
}  // namespace lockstep::comm
