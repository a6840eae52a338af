// Lets operations choose their type in a scope, as torch.autocast.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>

namespace lockstep::amp {

struct AutocastOptions {
  // kHalf or kBFloat16; without one that of the device, which is half on GPUs and bfloat16 on CPUs.
  std::optional<c10::ScalarType> dtype = {};
  bool enabled = true;
  std::optional<bool> cache_enabled = {};  // Keeps the weights' casts; not given: as it is.
};

// While it lives, in this thread. Its end restores what was there before, also when an exception
// leaves the scope, and the outermost one's end forgets the casts of the weights: the next step has
// others. Guards end in the reverse order of their beginnings, in the thread of their beginning.
class Autocast {
 public:
  // Throws UsageError for another type than those two.
  explicit Autocast(c10::DeviceType device, const AutocastOptions& options = {});
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  c10::DeviceType device_;
  bool was_enabled_;
  c10::ScalarType earlier_dtype_;
  bool was_cache_enabled_;
};

}  // namespace lockstep::amp
