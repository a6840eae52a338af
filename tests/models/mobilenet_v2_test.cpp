#include "lockstep/models/mobilenet_v2.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/models/python_model.h"

namespace lockstep::models {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(MobileNetV2, HasTheBitsOfTorchvision) {
  const std::vector<std::int64_t> images{2, 3, 64, 64};
  expect_bits_of_python(
      {{"mobilenet_v2", images, [] { return mobilenet_v2(); }},
       {"mobilenet_v2_of_7", images, [] { return mobilenet_v2({.num_classes = 7}); }}});
}

TEST(MobileNetV2, ACloneHasTheSameResults) {
  auto net = mobilenet_v2({.num_classes = 3, .in_channels = 1});
  auto clone = std::dynamic_pointer_cast<MobileNetV2>(net->clone());
  net->eval();
  clone->eval();
  const at::Tensor images = at::randn({2, 1, 32, 32});
  EXPECT_TRUE(at::equal(clone->forward(images), net->forward(images)));
}

TEST(MobileNetV2, NoClassesIsAnError) {
  EXPECT_THAT([] { mobilenet_v2({.num_classes = 0}); },
              ThrowsMessage<UsageError>(HasSubstr("num_classes is 0")));
}

}  // namespace
}  // namespace lockstep::models
