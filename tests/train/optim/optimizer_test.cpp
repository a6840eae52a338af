#include "lockstep/train/optim/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/train/optim/adam.h"
#include "lockstep/train/optim/sgd.h"

namespace lockstep::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Params = std::vector<at::Tensor>;

TEST(Optim, ZeroGradForgetsGradientsOrFillsThemWithZeros) {
  auto param = at::full({2}, 1.0F).requires_grad_();
  SGD sgd({param});
  param.mutable_grad() = at::full({2}, 3.0F);
  sgd.zero_grad(/*set_to_none=*/false);
  EXPECT_TRUE(at::equal(param.grad(), at::full({2}, 0.0F)));
  sgd.zero_grad();
  EXPECT_FALSE(param.grad().defined());
}

TEST(Optim, SenselessParametersAreErrors) {
  const auto param = at::full({2}, 1.0F).requires_grad_();
  const auto expect = [](const std::function<void()>& make, const char* what) {
    EXPECT_THAT(make, ThrowsMessage<UsageError>(HasSubstr(what)));
  };
  expect([&] { SGD(Params{}); }, "no parameters");
  expect([&] { SGD({at::Tensor()}); }, "parameter 0 of group 0 is undefined");
  using Groups = std::vector<ParamGroup<SGDOptions>>;
  expect([&] { SGD(Groups{{{param}, {}}, {{param}, {}}}); },
         "parameter 0 of group 1 is in another group, too");
  expect([&] { SGD({param * 2}); }, "is computed from others");
  SGD sgd({param});
  expect([&] { sgd.set_lr(-1); }, "a learning rate of -1");
  param.mutable_grad() = at::full({2}, 3.0F).to_sparse();
  expect([&] { sgd.step(); }, "is sparse");
}

TEST(Optim, AGroupThatIsNotThereIsAnError) {
  const auto param = [] { return at::full({2}, 1.0F).requires_grad_(); };
  const auto expect = [](const std::function<void()>& call, const char* what) {
    EXPECT_THAT(call, ThrowsMessage<UsageError>(HasSubstr(what)));
  };
  SGD sgd(std::vector<ParamGroup<SGDOptions>>{{{param()}, {}}, {{param()}, {}}});
  expect([&] { static_cast<void>(sgd.lr(5)); },
         "optim::SGD: lr of group 5: there are 2 groups, expected 0 to 1");
  expect([&] { static_cast<void>(sgd.params(2)); }, "params of group 2: there are 2 groups");
  expect([&] { sgd.initial_lr(5); }, "initial_lr of group 5: there are 2 groups");
  expect([&] { sgd.set_lr(5, 0.1); }, "set_lr of group 5: there are 2 groups");
  const AdamW adam({param()});
  expect([&] { static_cast<void>(adam.lr(1)); },
         "optim::AdamW: lr of group 1: there is 1 group, expected 0");
}

TEST(Optim, TiedWeightsAreTakenOnce) {
  auto param = at::full({2}, 1.0F).requires_grad_();
  SGD sgd({param, param}, {.lr = 0.5});
  param.mutable_grad() = at::full({2}, 1.0F);
  sgd.step();
  EXPECT_TRUE(at::equal(param, at::full({2}, 0.5F)));
  EXPECT_EQ(sgd.params(0).size(), 1);
}

}  // namespace
}  // namespace lockstep::optim
