#include "lockstep/models/convnet.h"

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

TEST(Convnet, NoClassesIsAnError) {
  EXPECT_THAT([] { convnet({.num_classes = 0}); },
              ThrowsMessage<UsageError>(HasSubstr("num_classes is 0")));
}

}  // namespace
}  // namespace lockstep::models
