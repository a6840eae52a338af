#include "lockstep/train/optim/sgd.h"

#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <torch/utils.h>

#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Eight steps; the second parameter gets its first gradient in the third.
std::vector<at::Tensor> trained(std::optional<bool> fused) {
  torch::manual_seed(3);
  std::vector<at::Tensor> params{at::randn({5, 3}).requires_grad_(),
                                 at::randn({4}).requires_grad_()};
  SGD sgd(params, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .fused = fused});
  for (int step = 0; step < 8; ++step) {
    sgd.zero_grad();
    params[0].mutable_grad() = at::randn({5, 3});
    if (step >= 2) {
      params[1].mutable_grad() = at::randn({4});
    }
    sgd.step();
  }
  return params;
}

TEST(SGD, FusedIsNearTheDefaultAlsoWhereAParameterBeginsLater) {
  const auto plain = trained(std::nullopt);
  const auto fused = trained(true);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(plain[i].allclose(fused[i], 1e-5, 1e-6)) << i;
  }
}

TEST(SGD, SenselessOptionsAreErrors) {
  const auto param = at::full({2}, 1.0F).requires_grad_();
  const auto expect = [&](const SGDOptions& options, const char* what) {
    EXPECT_THAT([&] { SGD({param}, options); }, ThrowsMessage<UsageError>(HasSubstr(what)));
  };
  expect({.lr = -1}, "optim::SGD: lr is -1");
  expect({.lr = std::nan("")}, "lr is nan");
  expect({.momentum = -1}, "momentum is -1");
  expect({.weight_decay = -1}, "weight_decay is -1");
  expect({.nesterov = true}, "nesterov with momentum 0");
  expect({.momentum = 0.9, .dampening = 0.1, .nesterov = true}, "and dampening 0.1");
}

}  // namespace
}  // namespace lockstep::optim
