#include "lockstep/data/datasets/dataset.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(RequireIndex, NamesIndexAndSize) {
  require_index("Some", 0, 1);
  EXPECT_THAT(
      [] { require_index("Some", 5, 5); },
      ThrowsMessage<UsageError>(HasSubstr("Some: index 5 is out of range, expected 0 to 4")));
  EXPECT_THAT([] { require_index("Some", -1, 5); },
              ThrowsMessage<UsageError>(HasSubstr("index -1 is out of range")));
}

}  // namespace
}  // namespace lockstep::data
