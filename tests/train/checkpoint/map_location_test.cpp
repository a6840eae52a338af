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

// As users pass it to a function, such as load_checkpoint().
std::string mapped(const MapLocation& map_location = {}) {
  return map_location("cuda:0").str() + " " + map_location("cuda:1").str();
}

TEST(MapLocation, IsWrittenAsItIsInPython) {
  EXPECT_EQ(mapped(), "cuda:0 cuda:1");
  EXPECT_EQ(mapped({}), "cuda:0 cuda:1");
  EXPECT_EQ(mapped("cuda:2"), "cuda:2 cuda:2");
  EXPECT_EQ(mapped(std::string("cuda:2")), "cuda:2 cuda:2");
  EXPECT_EQ(mapped(at::kCPU), "cpu cpu");
  EXPECT_EQ(mapped(at::Device(at::kCUDA, 2)), "cuda:2 cuda:2");
  EXPECT_EQ(mapped({at::kCUDA, 2}), "cuda:2 cuda:2");
}

TEST(MapLocation, AMapIsAListOfPairs) {
  EXPECT_EQ(mapped({{"cuda:0", "cuda:1"}}), "cuda:1 cuda:1");
  EXPECT_EQ(mapped({{{"cuda:0", "cuda:1"}}}), "cuda:1 cuda:1");
  EXPECT_EQ(mapped({{"cuda:0", "cuda:1"}, {"cuda:1", "cuda:0"}}), "cuda:1 cuda:0");
  const std::string from = "cuda:1";
  EXPECT_EQ(mapped({{from, "cpu"}}), "cuda:0 cpu");
  const MapLocation braces{{"cuda:0", "cuda:1"}};
  const MapLocation more_braces{{{"cuda:0", "cuda:1"}}};
  const MapLocation parentheses({{"cuda:0", "cuda:1"}});
  const MapLocation assigned = {{"cuda:0", "cuda:1"}, {"cuda:1", "cuda:0"}};
  EXPECT_EQ(mapped(braces), "cuda:1 cuda:1");
  EXPECT_EQ(mapped(more_braces), "cuda:1 cuda:1");
  EXPECT_EQ(mapped(parentheses), "cuda:1 cuda:1");
  EXPECT_EQ(mapped(assigned), "cuda:1 cuda:0");
  std::map<std::string, std::string> map{{"cuda:0", "cuda:1"}};
  EXPECT_EQ(mapped(map), "cuda:1 cuda:1");
  EXPECT_EQ(mapped(std::move(map)), "cuda:1 cuda:1");
}

at::Device to_third(const std::string& /*location*/) { return {at::kCUDA, 2}; }

TEST(MapLocation, AFunctionIsOfAnyKind) {
  EXPECT_EQ(mapped([](const std::string&) { return at::Device("cpu"); }), "cpu cpu");
  EXPECT_EQ(mapped([](std::string_view location) {
              return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(location.back() - '0' + 4));
            }),
            "cuda:4 cuda:5");
  EXPECT_EQ(mapped([](const auto&) { return at::kCPU; }), "cpu cpu");
  EXPECT_EQ(mapped(to_third), "cuda:2 cuda:2");
  const std::function<at::Device(const std::string&)> function = to_third;
  EXPECT_EQ(mapped(function), "cuda:2 cuda:2");
  const MapLocation first([](const std::string&) { return at::Device("cpu"); });
  const MapLocation copy(first);  // NOLINT(performance-unnecessary-copy-initialization)
  MapLocation assigned;
  assigned = copy;
  EXPECT_EQ(mapped(assigned), "cpu cpu");
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
