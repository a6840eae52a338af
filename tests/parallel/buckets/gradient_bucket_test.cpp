#include "lockstep/parallel/buckets/gradient_bucket.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/parallel/buckets/averages.h"

namespace lockstep::parallel {
namespace {

using ::testing::AllOf;
using testing::average_of;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Mode = GradientBucket::Mode;

at::Tensor ordinary(std::int64_t elements, at::TensorOptions options) {
  return at::full({elements}, 99, options);
}

std::vector<Parameter> two_parameters() {
  return {{.name = "a", .tensor = at::ones({2, 3}).requires_grad_()},
          {.name = "b", .tensor = at::ones({4}).requires_grad_()}};
}

const Bucket kBoth{.parameters = {1, 0}, .limit = 0};

TEST(GradientBucket, PacksGradientsInTheOrderOfThePlan) {
  auto parameters = two_parameters();
  GradientBucket bucket(kBoth, parameters, Mode::kViews, ordinary, average_of(2));
  parameters[0].tensor.mutable_grad() = at::full({2, 3}, 6.0F);
  parameters[1].tensor.mutable_grad() = at::arange(4).to(at::kFloat);
  bucket.put(0);
  bucket.put(1);
  EXPECT_TRUE(
      bucket.contents().equal(at::tensor({0.F, .5F, 1.F, 1.5F, 3.F, 3.F, 3.F, 3.F, 3.F, 3.F})));
  EXPECT_EQ(bucket.bytes(), 40);
}

TEST(GradientBucket, MakesGradientsViewsOfItself) {
  auto parameters = two_parameters();
  GradientBucket bucket(kBoth, parameters, Mode::kViews, ordinary, average_of(2));
  parameters[1].tensor.mutable_grad() = at::ones({4});
  bucket.put(0);
  EXPECT_TRUE(parameters[1].tensor.grad().is_alias_of(bucket.contents()));
  // Also that of a parameter that took no part here, once the sum is back.
  bucket.put(1);
  EXPECT_FALSE(parameters[0].tensor.grad().defined());
  bucket.write_back(1);
  EXPECT_TRUE(parameters[0].tensor.grad().is_alias_of(bucket.contents()));
  EXPECT_TRUE(parameters[0].tensor.grad().equal(at::zeros({2, 3})));
  parameters[0].tensor.mutable_grad().detach_();  // As optimizers do; views would refuse.
}

TEST(GradientBucket, CopiesOutInSeparateMode) {
  auto parameters = two_parameters();
  GradientBucket bucket(kBoth, parameters, Mode::kSeparate, ordinary, average_of(4));
  const auto own = at::ones({4});
  parameters[1].tensor.mutable_grad() = own;
  bucket.put(0);
  bucket.contents().mul_(3);
  bucket.write_back(0);
  EXPECT_TRUE(parameters[1].tensor.grad().is_same(own));
  EXPECT_TRUE(own.equal(at::full({4}, .75F)));
  bucket.write_back(1);
  EXPECT_TRUE(parameters[0].tensor.grad().defined());
  EXPECT_FALSE(parameters[0].tensor.grad().is_alias_of(bucket.contents()));
}

TEST(GradientBucket, DividesInPlaceWhatIsThereAndMultipliesWhatIsCopied) {
  // PyTorch does: 1/3 of some floats differs in the last bit.
  auto parameters = two_parameters();
  const auto values = at::arange(1, 5).to(at::kFloat).div(7);
  GradientBucket bucket({.parameters = {1}}, parameters, Mode::kViews, ordinary, average_of(3));
  parameters[1].tensor.mutable_grad() = values.clone();
  bucket.put(0);
  EXPECT_TRUE(bucket.contents().equal(values * (1.0 / 3)));
  parameters[1].tensor.mutable_grad().copy_(values);
  bucket.put(0);
  EXPECT_TRUE(bucket.contents().equal(values / 3));
}

TEST(GradientBucket, TakesInGradientsThatAreThereWhenItIsMade) {
  auto parameters = two_parameters();
  parameters[1].tensor.mutable_grad() = at::arange(4).to(at::kFloat);
  const GradientBucket bucket(kBoth, parameters, Mode::kViews, ordinary, average_of(2));
  EXPECT_TRUE(parameters[1].tensor.grad().is_alias_of(bucket.contents()));
  EXPECT_TRUE(parameters[1].tensor.grad().equal(at::arange(4).to(at::kFloat)));
}

TEST(GradientBucket, LeavesGradientsAloneWhereNothingTravels) {
  auto parameters = two_parameters();
  GradientBucket bucket(kBoth, parameters, Mode::kStay, ordinary, average_of(1));
  const auto own = at::ones({4});
  parameters[1].tensor.mutable_grad() = own;
  for (const std::size_t i : {0, 1}) {
    bucket.put(i);
    bucket.write_back(i);
  }
  EXPECT_FALSE(bucket.contents().defined());
  EXPECT_TRUE(parameters[1].tensor.grad().is_same(own));
  EXPECT_TRUE(parameters[0].tensor.grad().equal(at::zeros({2, 3})));
}

TEST(GradientBucket, KeepsTheStridesOfItsParameters) {
  const std::vector<Parameter> parameters{
      {.name = "conv",
       .tensor = at::ones({2, 3, 2, 2}).to(at::MemoryFormat::ChannelsLast).requires_grad_()}};
  GradientBucket bucket({.parameters = {0}}, parameters, Mode::kViews, ordinary, average_of(1));
  bucket.put(0);
  bucket.write_back(0);
  EXPECT_EQ(parameters[0].tensor.grad().strides(), parameters[0].tensor.strides());
}

// It has the memory of the place, but other values.
TEST(GradientBucket, TakesAnotherViewOfAPlaceForWhatItIs) {
  const std::vector<Parameter> parameters{
      {.name = "square", .tensor = at::ones({3, 3}).requires_grad_()}};
  const auto values = at::arange(9).to(at::kFloat).view({3, 3});
  auto& grad = parameters[0].tensor.mutable_grad();
  GradientBucket bucket({.parameters = {0}}, parameters, Mode::kViews, ordinary, average_of(1));
  grad = values.clone();
  bucket.put(0);
  grad = grad.t();
  bucket.begin();
  bucket.put(0);
  bucket.write_back(0);
  EXPECT_TRUE(bucket.contents().view({3, 3}).equal(values.t()));
  EXPECT_TRUE(grad.equal(values.t()));
  grad = grad.t();
  EXPECT_THAT([&] { bucket.write_back(0); }, ThrowsMessage<UsageError>(HasSubstr("exchanged")));
}

TEST(GradientBucket, RejectsAGradientOfAnotherDtype) {
  auto parameters = two_parameters();
  parameters[1].tensor = at::ones({4}).requires_grad_();
  GradientBucket bucket({.parameters = {1}}, parameters, Mode::kViews, ordinary, average_of(1));
  parameters[1].tensor.unsafeGetTensorImpl()->mutable_grad() = at::ones({4}, at::kDouble);
  EXPECT_THAT([&] { bucket.put(0); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("'b'"), HasSubstr("CPUDoubleType"))));
}

TEST(GradientBucket, SendsASparseGradientItself) {
  std::vector<Parameter> parameters{
      {.name = "table", .tensor = at::ones({5, 2}).requires_grad_(), .sparse = true}};
  GradientBucket bucket({.parameters = {0}}, parameters, Mode::kViews, ordinary, average_of(2));
  EXPECT_THAT([&] { bucket.put(0); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("'table'"), HasSubstr("undefined"))));
  parameters[0].tensor.mutable_grad() = at::sparse_coo_tensor(
      at::tensor({1, 3}, at::kLong).view({1, 2}), at::full({2, 2}, 4.F), {5, 2});
  bucket.put(0);
  EXPECT_TRUE(bucket.contents().is_same(parameters[0].tensor.grad()));
  EXPECT_TRUE(bucket.contents()._values().eq(2).all().item<bool>());
}

TEST(GradientBucket, NoticesThatAGradientWasExchanged) {
  auto parameters = two_parameters();
  GradientBucket bucket(kBoth, parameters, Mode::kViews, ordinary, average_of(2));
  parameters[1].tensor.mutable_grad() = at::ones({4});
  bucket.put(0);
  parameters[1].tensor.mutable_grad() = at::ones({4});
  EXPECT_THAT([&] { bucket.write_back(0); }, ThrowsMessage<UsageError>(HasSubstr("'b'")));
}

}  // namespace
}  // namespace lockstep::parallel
