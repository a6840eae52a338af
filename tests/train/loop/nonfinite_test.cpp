#include "lockstep/train/loop/nonfinite.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <limits>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Nonfinite, ALossNamesItsRank) {
  for (const double loss : {kNan, kInfinity}) {
    EXPECT_THAT(
        [&] { require_finite_losses({}, 7, {1.5, loss}); },
        ThrowsMessage<Error>(AllOf(HasSubstr("step 7: the loss of rank 1"), HasSubstr("HINT"))));
  }
  EXPECT_NO_THROW(require_finite_losses({}, 7, {1.5, 1e300}));
  EXPECT_NO_THROW(require_finite_losses({.nonfinite = "skip"}, 7, {kNan}));
  EXPECT_NO_THROW(require_finite_losses({.nonfinite = "ignore"}, 7, {kNan}));
}

TEST(Nonfinite, WeightsAreNamed) {
  torch::nn::Linear net(3, 2);
  EXPECT_NO_THROW(require_finite_weights({}, 7, *net));
  net->bias.data()[1] = kInfinity;
  for (const char* policy : {"abort", "skip"}) {
    EXPECT_THAT([&] { require_finite_weights({.nonfinite = policy}, 7, *net); },
                ThrowsMessage<Error>(HasSubstr("the weights of 'bias'")));
  }
  EXPECT_NO_THROW(require_finite_weights({.nonfinite = "ignore"}, 7, *net));
}

TEST(Nonfinite, GradientsOfAGpuAreLookedAtIfStepsAreToBeLeftOut) {
  const at::Device gpu(at::kCUDA, 0);
  EXPECT_TRUE(checks_gradients({}, at::kCPU));
  EXPECT_FALSE(checks_gradients({}, gpu));
  EXPECT_TRUE(checks_gradients({.nonfinite = "skip"}, gpu));
  EXPECT_FALSE(checks_gradients({.nonfinite = "ignore"}, at::kCPU));
}

}  // namespace
}  // namespace lockstep::train
