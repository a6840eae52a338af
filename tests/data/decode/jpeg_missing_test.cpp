// Where the library is missing: what a user is told.
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/data/decode/jpeg.h"

namespace lockstep::data {
namespace {

TEST(DecodeJpegMissing, SaysWhatToInstall) {
  EXPECT_THAT([] { (void)decode_jpeg({}, 1); },
              ::testing::ThrowsMessage<IoError>(::testing::HasSubstr("Debian: libjpeg-dev")));
}

}  // namespace
}  // namespace lockstep::data
