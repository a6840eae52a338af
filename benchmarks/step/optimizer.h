// SGD with momentum and weight decay, as all sides of `lockstep bench step` have it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace lockstep::bench {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void zero_grad() = 0;
  virtual void step() = 0;
  virtual void set_lr(double lr) = 0;
};

// LibTorch's own on the CPU. On a GPU one that updates all parameters in one kernel, as
// torch.optim.SGD(fused=True), and reads its learning rate from the GPU: a step that was recorded
// as a CUDA graph follows changes of it.
std::unique_ptr<Optimizer> make_sgd(const std::vector<at::Tensor>& parameters);

}  // namespace lockstep::bench
