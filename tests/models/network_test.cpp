#include "lockstep/models/network.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/models/resnet.h"

namespace lockstep::models {
namespace {

// Has a parameter and a buffer of its own, and looks at its own mode.
struct Own : torch::nn::Cloneable<Own> {
  Own() { reset(); }
  void reset() override {
    weight = register_parameter("weight", at::ones({2}));
    frozen = register_parameter("frozen", at::ones({2}), /*requires_grad=*/false);
    offset = register_buffer("offset", at::ones({2}));
  }
  at::Tensor forward(const at::Tensor& input) const {
    return input * weight + (is_training() ? offset : offset * 10);
  }
  at::Tensor weight;
  at::Tensor frozen;
  at::Tensor offset;
};

TEST(Network, HasTheNamesAndTheTensorsOfItsBody) {
  const auto body = resnet18({.num_classes = 3});
  const auto net = std::make_shared<Network>(body);
  EXPECT_EQ(net->named_parameters().keys(), body->named_parameters().keys());
  EXPECT_EQ(net->named_buffers().keys(), body->named_buffers().keys());
  for (const auto& item : net->named_parameters()) {
    EXPECT_TRUE(item.value().is_same(body->named_parameters()[item.key()])) << item.key();
  }
  const auto own = std::make_shared<Own>();
  const auto of_own = std::make_shared<Network>(own);
  EXPECT_EQ(of_own->named_parameters().keys(), own->named_parameters().keys());
  EXPECT_FALSE(own->frozen.requires_grad());
  EXPECT_EQ(of_own->named_buffers().keys(), own->named_buffers().keys());
}

TEST(Network, ItsModeIsThatOfItsBody) {
  const auto own = std::make_shared<Own>();
  own->eval();
  const auto net = std::make_shared<Network>(own);
  EXPECT_FALSE(net->is_training());
  net->train();
  EXPECT_TRUE(at::equal(net->forward(at::ones({2})), at::ones({2}) * 2));
  net->eval();
  EXPECT_TRUE(at::equal(net->forward(at::ones({2})), at::ones({2}) * 11));
}

TEST(Network, MovesItsBody) {
  const auto own = std::make_shared<Own>();
  std::make_shared<Network>(own)->to(at::kDouble);
  EXPECT_EQ(own->weight.scalar_type(), at::kDouble);
  EXPECT_EQ(own->offset.scalar_type(), at::kDouble);
}

TEST(Network, ACloneHasTensorsOfItsOwn) {
  const auto body = resnet18({.num_classes = 3});
  const auto net = std::make_shared<Network>(body);
  net->eval();
  const auto clone = std::dynamic_pointer_cast<Network>(net->clone());
  const at::Tensor images = at::randn({2, 3, 32, 32});
  EXPECT_TRUE(at::equal(clone->forward(images), net->forward(images)));
  const auto before = clone->forward(images).clone();
  {
    const at::NoGradGuard no_grad;
    body->parameters()[0].zero_();
  }
  EXPECT_TRUE(at::equal(clone->forward(images), before));
  EXPECT_FALSE(at::equal(net->forward(images), before));
}

TEST(Network, WithoutABodyIsAnError) {
  EXPECT_THROW(Network(std::shared_ptr<ResNet>()), UsageError);
}

}  // namespace
}  // namespace lockstep::models
