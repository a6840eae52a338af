// The pieces of DataParallel: replicate, scatter, parallel_apply and gather of PyTorch.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace lockstep::parallel {

// A module on several devices. On the first one it is the module itself; on the others clones of
// it, whose parameters and buffers are copied from it in each step. A clone that the graph of an
// earlier step still needs is left to it, and another one made.
class Replicas {
 public:
  // Throws UsageError if the module is not on the first device, or cannot be cloned.
  Replicas(std::shared_ptr<torch::nn::Module> module, std::vector<at::Device> devices);

  // Copies parameters, buffers, which parameters need gradients, and which modules train, to the
  // first `count` replicas. Gradients of the copies are added up and go to the module's parameters.
  void replicate(std::size_t count);

  [[nodiscard]] const std::vector<at::Device>& devices() const { return devices_; }
  [[nodiscard]] torch::nn::Module& operator[](std::size_t replica) const {
    return *replicas_[replica].module;
  }

 private:
  struct Replica {
    std::shared_ptr<torch::nn::Module> module;
    std::vector<std::size_t> uses;  // For each tensor, before any graph uses it.
  };
  [[nodiscard]] Replica clone_to(at::Device device) const;

  std::vector<at::Device> devices_;
  std::vector<Replica> replicas_;
};

// Pieces of equal size, but for the last, one for each device; fewer where `tensor` has fewer rows,
// as torch.chunk gives them. A tensor without dimensions, or without memory, goes to every device.
// Throws UsageError if a tensor has no dimension `dim`.
std::vector<at::Tensor> scatter(const at::Tensor& tensor, std::span<const at::Device> devices,
                                std::int64_t dim);

// One tensor with all pieces. Pieces without dimensions become the elements of a vector.
at::Tensor gather(const std::vector<at::Tensor>& pieces, at::Device device, std::int64_t dim);

// Calls `apply` for replicas 0 to count - 1 at the same time, each in a thread of its own with the
// caller's grad mode, autocast, and stream of its device; a single one in the caller's thread. The
// threads that LibTorch has for operations on the CPU are dealt out to the replicas. Returns when
// all have ended. An exception is thrown on as it is, and LibTorch's with the replica's number and
// device added to it; of several, the first replica's.
void parallel_apply(std::size_t count, std::span<const at::Device> devices,
                    const std::function<void(std::size_t replica)>& apply);

}  // namespace lockstep::parallel
