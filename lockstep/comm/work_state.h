// What a Work refers to; private to comm.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "lockstep/comm/work.h"

namespace lockstep {

struct Work::State {
  std::string what;  // "all_reduce #12 on rank 1 of 4": how errors begin.
  std::vector<c10::intrusive_ptr<c10d::Work>> parts;
  std::chrono::milliseconds timeout{0};  // For point-to-point works: c10d takes it in wait().
  std::function<void()> finish;          // Runs once, after all parts.
  bool done = false;
};

}  // namespace lockstep
