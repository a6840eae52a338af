// Where a worker's stdout or stderr goes: a pipe to the launcher, a file, or the launcher's own.
#pragma once

#include <optional>
#include <string>

#include "lockstep/base/fd.h"
#include "lockstep/launch/node/capture.h"
#include "lockstep/launch/node/log_layout.h"

namespace lockstep::launch {

// The child's end of a stream. `end` must live until the child is forked.
struct StreamEnd {
  UniqueFd end;
  int fd = -1;  // -1: the launcher's own.
};

// Connects one stream as its route says; a pipe to us becomes `capture`. With `keep_tail` the last
// lines are kept, whatever the route.
StreamEnd open_stream(const StreamRoute& route, CaptureTarget target, bool keep_tail,
                      std::optional<Capture>& capture);

// The last 64 KiB of a file; empty if it cannot be read.
std::string end_of_file(const std::string& path);

}  // namespace lockstep::launch
