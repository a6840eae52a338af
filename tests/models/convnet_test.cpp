#include "lockstep/models/convnet.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/models/python_model.h"

namespace lockstep::models {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Convnet, HasTheBitsOfPython) {
  expect_bits_of_python({{"convnet", {8, 1, 28, 28}, [] { return convnet(); }}});
}

TEST(Convnet, HasTheSizesOfItsOptions) {
  auto net = convnet({.num_classes = 3, .in_channels = 2, .height = 33, .width = 4});
  EXPECT_EQ(net->forward(at::zeros({5, 2, 33, 4})).sizes(), (std::vector<std::int64_t>{5, 3}));
}

TEST(Convnet, ImagesThatPoolingLeavesNothingOfAreAnError) {
  EXPECT_THAT([] { convnet({.height = 3}); },
              ThrowsMessage<UsageError>(HasSubstr("images of 3x28, expected at least 4x4")));
}

TEST(Convnet, NoClassesIsAnError) {
  EXPECT_THAT([] { convnet({.num_classes = 0}); },
              ThrowsMessage<UsageError>(HasSubstr("num_classes is 0")));
}

}  // namespace
}  // namespace lockstep::models
