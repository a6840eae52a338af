// A tensor's contents as a value of a checkpoint that owns them.
#pragma once

#include <cstdlib>
#include <memory>

#include "lockstep/train/checkpoint/tensor_value.h"

namespace lockstep::train {

inline checkpoint::Tensor copied(const at::Tensor& tensor) {
  Snapshot snapshot;
  auto value = snapshot.take(tensor);
  snapshot.copy_to(std::shared_ptr<void>(::operator new(snapshot.bytes() + 1),
                                         [](void* block) { ::operator delete(block); }));
  return value;
}

}  // namespace lockstep::train
