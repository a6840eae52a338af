// The ways to sum a buffer over all ranks that take part in `lockstep bench allreduce`.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"

namespace lockstep::bench {

struct Contender {
  std::string name;
  float* input = nullptr;
  float* output = nullptr;
  std::function<void()> barrier;
  // What is measured, made ready for that many elements from the start of the buffers.
  std::function<std::function<void()>(std::size_t count)> operation;
  // What an element must be afterwards.
  std::function<float(long operation, std::size_t element)> expected;
  // A limit: each rank works on memory of its own. A sum cannot end before its last part has, so
  // here too the time ends with the last rank.
  bool is_limit = false;
};

// `backend` is the group's: "shm" has several ways, "gloo" one. Buffers hold `count` elements and
// live as long as the contenders.
std::vector<Contender> contenders_of(const Group& group, const std::string& backend,
                                     std::size_t count);

}  // namespace lockstep::bench
