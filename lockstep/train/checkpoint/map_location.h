// Where the tensors of a checkpoint go: torch.load's map_location.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

namespace lockstep {

class MapLocation {
 public:
  // To the device that each was saved from.
  MapLocation() = default;
  // All to one device. Throws UsageError if there is none of this name.
  MapLocation(at::Device device);
  MapLocation(at::DeviceType type, at::DeviceIndex index = -1)
      : MapLocation(at::Device(type, index)) {}
  MapLocation(const char* device) : MapLocation(std::string(device)) {}
  MapLocation(const std::string& device);
  // From device to device, such as {{"cuda:0", "cuda:1"}}; others stay where they were.
  MapLocation(std::initializer_list<std::pair<const std::string, std::string>> locations)
      : MapLocation(std::map<std::string, std::string>(locations)) {}
  MapLocation(std::map<std::string, std::string> locations);
  // From a device's name to a device. A template, so that a lambda is one conversion away.
  template <class Function>
    requires std::is_invocable_r_v<at::Device, const Function&, const std::string&>
  MapLocation(Function function) : function_(std::move(function)) {}

  [[nodiscard]] at::Device operator()(const std::string& location) const;

 private:
  std::function<at::Device(const std::string&)> function_;
};

}  // namespace lockstep
