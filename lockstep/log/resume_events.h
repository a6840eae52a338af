// Event files of a run that goes on from a checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/log/log_file.h"

namespace lockstep::log {

// The last events that are kept.
struct LastEvents {
  std::int64_t step = 0;
  // Events of `step` itself with one of these tags are removed, too: those of a validation that is
  // made again, say.
  std::vector<std::string> made_again = {};
};

// Removes from the event files of a folder the first event of a step greater than the last one's,
// and all that follow it in its file: the run does those steps again. For TensorBoard alone
// `purge_step` would do, because it hides them; other readers would find them twice. Nobody may
// write to the files meanwhile. A file that is damaged or cannot be changed stays as it is, with a
// warning; a folder that is not there is no error.
void drop_events_after(const std::string& folder, const LastEvents& last,
                       const OnWarning& on_warning = warn_on_stderr);
inline void drop_events_after(const std::string& folder, std::int64_t last_step,
                              const OnWarning& on_warning = warn_on_stderr) {
  drop_events_after(folder, LastEvents{last_step}, on_warning);
}

}  // namespace lockstep::log
