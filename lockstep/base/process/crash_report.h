// Tells a launcher why this program died, in torchelastic's error file.
//
// A launcher names the file in TORCHELASTIC_ERROR_FILE and shows its content in
// its report; without that variable nothing is installed and nothing is written.
#pragma once

#include <string>

#include "lockstep/base/environment.h"

namespace lockstep {

// From now on an uncaught exception or a fatal signal writes the error file,
// with a backtrace, and then ends the process as it would have ended anyway.
//
// Does nothing outside a launcher, inside a Python interpreter, or for a signal
// that already has a handler; calling it again is harmless. Returns whether it is active.
bool install_crash_report(const Environment& environment);

// What an uncaught exception's report says behind the exception's text; "" adds nothing. It is
// asked in a process that is about to end, where other threads still run, so it may not wait for
// them.
using CrashRemark = std::string (*)(const std::string& text);
void set_crash_remark(CrashRemark remark);

// For a program that catches its exceptions and ends with a code: writes `message` to the error
// file, if there is a launcher. Ranks that only noticed the failure of another write none, so that
// the launcher's report names the one that did.
void tell_launcher(const Environment& environment, const std::string& message);

// Writes the error file in torchelastic's format: `type`: `text`, and where it happened.
// False if the file could not be written.
bool write_error_file(const std::string& path, const std::string& message,
                      const std::string& backtrace);

}  // namespace lockstep
