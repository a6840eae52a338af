#include "lockstep/train/checkpoint/map_location.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(MapLocation, ByDefaultEverythingStays) {
  EXPECT_EQ(MapLocation()("cuda:3"), at::Device("cuda:3"));
}

TEST(MapLocation, ADeviceTakesAllAndAMapWhatItNames) {
  EXPECT_EQ(MapLocation("cuda:1")("cpu"), at::Device("cuda:1"));
  const MapLocation map(std::map<std::string, std::string>{{"cuda:0", "cuda:1"}});
  EXPECT_EQ(map("cuda:0"), at::Device("cuda:1"));
  EXPECT_EQ(map("cuda:2"), at::Device("cuda:2"));
}

TEST(MapLocation, WhatIsNoDeviceIsNamed) {
  EXPECT_THAT([] { (void)MapLocation()("disk:1"); },
              ThrowsMessage<UsageError>(HasSubstr("'disk:1' is no device")));
  EXPECT_THAT([] { MapLocation("gpu"); },
              ThrowsMessage<UsageError>(HasSubstr("'gpu' is no device")));
  EXPECT_EQ(MapLocation(std::string("cuda:1"))("cpu"), at::Device("cuda:1"));
}

}  // namespace
}  // namespace lockstep
