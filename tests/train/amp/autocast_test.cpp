#include "lockstep/train/amp/autocast.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include <stdexcept>

#include "lockstep/base/error.h"

namespace lockstep::amp {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

at::ScalarType type_of_product() {
  return at::mm(at::randn({2, 2}), at::randn({2, 2})).scalar_type();
}

TEST(Autocast, ProductsHaveTheTypeInTheScopeAlone) {
  {
    const Autocast half(at::kCPU, {.dtype = at::kHalf});
    EXPECT_EQ(type_of_product(), at::kHalf);
    {
      const Autocast off(at::kCPU, {.enabled = false});
      EXPECT_EQ(type_of_product(), at::kFloat);
      const Autocast bfloat16(at::kCPU, {.dtype = at::kBFloat16});
      EXPECT_EQ(type_of_product(), at::kBFloat16);
    }
    EXPECT_EQ(type_of_product(), at::kHalf);
  }
  EXPECT_EQ(type_of_product(), at::kFloat);
  const Autocast standard(at::kCPU);
  EXPECT_EQ(type_of_product(), at::kBFloat16);
}

TEST(Autocast, AnExceptionRestoresEverything) {
  for (const auto device : {at::kCPU, at::kCUDA}) {
    const auto dtype = at::autocast::get_autocast_dtype(device);
    const auto other = dtype == at::kHalf ? at::kBFloat16 : at::kHalf;
    try {
      const Autocast guard(device, {.dtype = other, .cache_enabled = false});
      EXPECT_TRUE(at::autocast::is_autocast_enabled(device));
      EXPECT_EQ(at::autocast::get_autocast_dtype(device), other);
      EXPECT_FALSE(at::autocast::is_autocast_cache_enabled());
      throw std::runtime_error("in the scope");
    } catch (const std::runtime_error&) {
    }
    EXPECT_FALSE(at::autocast::is_autocast_enabled(device));
    EXPECT_EQ(at::autocast::get_autocast_dtype(device), dtype);
    EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
  }
}

// A cast that is kept would be that of the weights before a step.
TEST(Autocast, TheOutermostEndForgetsTheCasts) {
  auto weight = at::randn({2, 2}).requires_grad_();
  const auto input = at::randn({2, 2});
  const auto product = [&] {
    const Autocast outer(at::kCPU, {.dtype = at::kBFloat16});
    return at::mm(input, weight).detach().to(at::kFloat);
  };
  const auto before = product();
  weight.detach().mul_(-2);
  EXPECT_TRUE(product().allclose(before * -2, 0, 0));
}

TEST(Autocast, AnInnerEndKeepsTheCasts) {
  auto weight = at::randn({2, 2}).requires_grad_();
  const auto input = at::randn({2, 2});
  const Autocast outer(at::kCPU, {.dtype = at::kBFloat16});
  const auto before = at::mm(input, weight).detach();
  {
    const Autocast inner(at::kCPU, {.dtype = at::kBFloat16});
  }
  weight.detach().mul_(-2);
  EXPECT_TRUE(at::mm(input, weight).allclose(before, 0, 0)) << "as in Python";
}

TEST(Autocast, OtherTypesAreErrors) {
  EXPECT_THAT([] { Autocast(at::kCPU, {.dtype = at::kDouble}); },
              ThrowsMessage<UsageError>(HasSubstr("the type Double, expected Half or BFloat16")));
  EXPECT_EQ(type_of_product(), at::kFloat);
}

}  // namespace
}  // namespace lockstep::amp
