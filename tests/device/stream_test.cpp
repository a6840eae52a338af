#include "lockstep/device/stream.h"

#include <gtest/gtest.h>

namespace lockstep::device {
namespace {

TEST(Stream, TheCpuHasOneAndNothingWaits) {
  const auto stream = current_stream(at::kCPU);
  EXPECT_EQ(side_stream(at::kCPU), stream);
  EXPECT_EQ(copy_stream(at::kCPU), stream);
  EXPECT_NO_THROW(make_wait(stream, stream));
  EXPECT_NO_THROW(set_device(at::kCPU));
}

}  // namespace
}  // namespace lockstep::device
