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

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The sums of a rank whose first `finite` of 40 samples had a finite loss.
Tally::Sums sums(double finite) { return {finite < 40 ? kInfinity : 1.5, 0, 0, 40, finite}; }

TEST(Nonfinite, TheFirstLossNamesItsRankAndStep) {
  const auto named = [](const std::string& what) {
    return ThrowsMessage<Error>(AllOf(HasSubstr(what), HasSubstr("HINT")));
  };
  EXPECT_THAT([] { require_finite_losses({}, 7, {sums(40), sums(30)}, 10); },
              named("step 7: the loss of rank 1"));
  // Ranks 0 and 2 have what rank 1 made of the weights.
  EXPECT_THAT([] { require_finite_losses({}, 7, {sums(20), sums(10), sums(20)}, 10); },
              named("step 5: the loss of rank 1"));
  // The second of two batches that make a step.
  EXPECT_THAT([] { require_finite_losses({}, 7, {sums(25)}, 10); }, named("step 6: the loss"));
  EXPECT_NO_THROW(require_finite_losses({}, 7, {sums(40), sums(40)}, 10));
  EXPECT_NO_THROW(require_finite_losses({.nonfinite = "skip"}, 7, {sums(0)}, 10));
  EXPECT_NO_THROW(require_finite_losses({.nonfinite = "ignore"}, 7, {sums(0)}, 10));
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
