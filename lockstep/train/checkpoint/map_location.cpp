#include "lockstep/train/checkpoint/map_location.h"

#include <c10/util/Exception.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

at::Device device_of(const std::string& location) {
  try {
    return at::Device(location);
  } catch (const c10::Error&) {
    throw UsageError("map_location: '" + location +
                     "' is no device; name one, such as MapLocation(\"cpu\")");
  }
}

}  // namespace

MapLocation::MapLocation(at::Device device)
    : function_([device](const std::string& /*location*/) { return device; }) {}

MapLocation::MapLocation(const std::string& device) : MapLocation(device_of(device)) {}

MapLocation::MapLocation(std::map<std::string, std::string> locations)
    : function_([locations = std::move(locations)](const std::string& location) {
        const auto found = locations.find(location);
        return device_of(found == locations.end() ? location : found->second);
      }) {}

at::Device MapLocation::operator()(const std::string& location) const {
  return function_ ? function_(location) : device_of(location);
}

}  // namespace lockstep
