// What every part of a running launcher may look at; made before the first fork, never changed.
#pragma once

#include "lockstep/base/environment.h"
#include "lockstep/launch/command/machine.h"
#include "lockstep/launch/command/options.h"
#include "lockstep/launch/command/program.h"
#include "lockstep/launch/node/log_layout.h"
#include "lockstep/launch/node/signals.h"

namespace lockstep::launch {

struct Context {
  RunOptions options;
  Environment environment;
  Machine machine;
  Program program;
  RunFolder folder;
  std::string store_program;  // Empty: there is none beside this program.
  const Signals* signals = nullptr;
};

}  // namespace lockstep::launch
