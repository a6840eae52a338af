#include "lockstep/models/resnet.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/models/python_model.h"

namespace lockstep::models {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<std::int64_t> kImages{2, 3, 64, 64};

TEST(ResNet, Of18LayersHasTheBitsOfTorchvision) {
  expect_bits_of_python({{"resnet18", kImages, [] { return resnet18(); }},
                         {"resnet18_from_zero", kImages, [] {
                            return resnet18({.num_classes = 10, .zero_init_residual = true});
                          }}});
}

TEST(ResNet, OfMoreLayersHasTheBitsOfTorchvision) {
  expect_bits_of_python(
      {{"resnet34", kImages, [] { return resnet34(); }},
       {"resnet50_from_zero", kImages, [] { return resnet50({.zero_init_residual = true}); }}});
}

TEST(ResNet, Of101LayersHasTheBitsOfTorchvision) {
  expect_bits_of_python({{"resnet101", kImages, [] { return resnet101(); }}});
}

TEST(ResNet, Of152LayersHasTheBitsOfTorchvision) {
  expect_bits_of_python({{"resnet152", kImages, [] { return resnet152(); }}});
}

TEST(ResNet, TakesImagesOfAnyNumberOfChannels) {
  EXPECT_EQ(
      resnet18({.num_classes = 3, .in_channels = 1})->forward(at::randn({2, 1, 28, 28})).sizes(),
      (std::vector<std::int64_t>{2, 3}));
}

TEST(ResNet, ACloneHasTheSameBitsInMemoryOfItsOwn) {
  auto net = resnet18({.num_classes = 3});
  net->eval();
  auto clone = std::dynamic_pointer_cast<ResNet>(net->clone());
  const auto ours = net->named_parameters();
  for (const auto& parameter : clone->named_parameters()) {
    EXPECT_TRUE(at::equal(parameter.value(), ours[parameter.key()])) << parameter.key();
    EXPECT_NE(parameter.value().data_ptr(), ours[parameter.key()].data_ptr()) << parameter.key();
  }
  const at::Tensor images = at::randn(kImages);
  EXPECT_TRUE(at::equal(clone->forward(images), net->forward(images)));
}

TEST(ResNet, NoClassesIsAnError) {
  EXPECT_THAT([] { resnet18({.num_classes = 0}); },
              ThrowsMessage<UsageError>(HasSubstr("num_classes is 0")));
}

}  // namespace
}  // namespace lockstep::models
