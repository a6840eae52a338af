#include "lockstep/train/amp/autocast.h"

#include <ATen/autocast_mode.h>

#include <string>

#include "lockstep/base/error.h"

namespace lockstep::amp {

Autocast::Autocast(c10::DeviceType device, const AutocastOptions& options)
    : device_(device),
      was_enabled_(at::autocast::is_autocast_enabled(device)),
      earlier_dtype_(at::autocast::get_autocast_dtype(device)),
      was_cache_enabled_(at::autocast::is_autocast_cache_enabled()) {
  const auto dtype = options.dtype.value_or(earlier_dtype_);
  if (options.enabled && dtype != c10::kHalf && dtype != c10::kBFloat16) {
    throw UsageError(std::string("Autocast: the type ") + c10::toString(dtype) +
                     ", expected Half or BFloat16");
  }
  at::autocast::set_autocast_enabled(device, options.enabled);
  at::autocast::set_autocast_dtype(device, dtype);
  at::autocast::increment_nesting();
  at::autocast::set_autocast_cache_enabled(options.cache_enabled.value_or(was_cache_enabled_));
}

Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) {
    at::autocast::clear_cache();
  }
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, earlier_dtype_);
  at::autocast::set_autocast_cache_enabled(was_cache_enabled_);
}

}  // namespace lockstep::amp
