// Where the library is missing: what a user is told.
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/data/decode/png.h"

namespace lockstep::data {
namespace {

TEST(DecodePngMissing, SaysWhatToInstall) {
  EXPECT_THAT([] { (void)decode_png({}, 1); },
              ::testing::ThrowsMessage<IoError>(::testing::HasSubstr("Debian: libpng-dev")));
}

}  // namespace
}  // namespace lockstep::data
