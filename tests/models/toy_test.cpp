#include "lockstep/models/toy.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/models/python_model.h"

namespace lockstep::models {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Toy, HasTheBitsOfPython) {
  expect_bits_of_python({{"toy", {20, 10}, [] { return toy(); }}});
}

TEST(Toy, ASizeThatIsNotPositiveIsNamed) {
  EXPECT_THAT([] { toy({.in_features = 0}); },
              ThrowsMessage<UsageError>(HasSubstr("in_features is 0")));
}

}  // namespace
}  // namespace lockstep::models
