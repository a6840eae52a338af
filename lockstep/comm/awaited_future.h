// The future of a work that nobody completes unless somebody waits for it.
#pragma once

#include <ATen/core/ivalue.h>

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace lockstep::comm {

// A thread waits for the work, which lives until then: until it is done or has failed, at the
// latest at its timeout or when its group ends. The value is the work's result().
c10::intrusive_ptr<c10::ivalue::Future> awaited_future(c10::intrusive_ptr<c10d::Work> work);

}  // namespace lockstep::comm
