#include "lockstep/models/vgg.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/models/python_model.h"

namespace lockstep::models {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<std::int64_t> kPictures{2, 3, 64, 64};

// One test each: a network has 130 million weights.
TEST(Vgg, Of11LayersHasTheBitsOfTorchvision) {
  expect_bits_of_python(
      {{"vgg11_bn_of_7", kPictures, [] { return vgg11_bn({.num_classes = 7}); }}});
}

TEST(Vgg, Of13LayersHasTheBitsOfTorchvision) {
  expect_bits_of_python({{"vgg13_bn", kPictures, [] { return vgg13_bn(); }}});
}

TEST(Vgg, Of16LayersHasTheBitsOfTorchvision) {
  expect_bits_of_python({{"vgg16_bn", kPictures, [] { return vgg16_bn(); }}});
}

TEST(Vgg, Of19LayersHasTheBitsOfTorchvision) {
  expect_bits_of_python({{"vgg19_bn", kPictures, [] { return vgg19_bn(); }}});
}

TEST(Vgg, NoClassesIsAnError) {
  EXPECT_THAT([] { vgg11_bn({.num_classes = 0}); },
              ThrowsMessage<UsageError>(HasSubstr("num_classes is 0")));
}

}  // namespace
}  // namespace lockstep::models
