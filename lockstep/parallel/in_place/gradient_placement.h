// Lets autograd allocate gradients in their buckets, so that they need not be copied there.
//
// autograd allocates every gradient anew in each backward, in the same way each time. So the last
// backward tells which of the tensors allocated now will become which gradient. This is a guess. If
// it is wrong, another tensor lies in the bucket for a while; the caller learns this from
// comm::is_placed() and must leave that memory alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "lockstep/comm/placement_allocator.h"

namespace lockstep::parallel {

class GradientPlacement final : public comm::MemorySource {
 public:
  struct Callbacks {
    // The memory where a parameter's gradient should be, or nothing if it cannot be used now.
    std::function<Memory(std::size_t parameter)> place;
    // The backward pass that this thread is in; negative if none.
    std::function<int()> current_pass;
  };

  // `bytes` are the sizes of the gradients; 0 for one that cannot be allocated in its bucket.
  GradientPlacement(std::vector<std::size_t> bytes, Callbacks callbacks);

  // This thread is in a backward pass; until end(), its tensors ask for memory here. end() without
  // begin() is harmless. begin() does nothing with create_graph, because such gradients belong to
  // the graph, nor if the pass already asks another memory source.
  static void begin(const std::shared_ptr<GradientPlacement>& places);
  void end();
  // Gives a pass up: nothing is learned from it. Any thread may call this while the pass's thread
  // is in no pass; that thread forgets the memory source when it allocates its next tensor.
  void close();
  // autograd has computed a parameter's gradient, which may be undefined.
  void gradient_made(std::size_t parameter, const at::Tensor& gradient);
  // Makes no guess for this parameter for some passes, and for more of them each time.
  void avoid(std::size_t parameter);

  Memory memory_for(std::size_t bytes) override;
  void made(const void* data, std::size_t bytes) override;
  [[nodiscard]] bool is_busy() const override;

 private:
  struct Allocation {
    std::size_t parameter;
    std::size_t nth;  // Among the tensors of its size made since the last gradient.
  };
  struct Made {
    const void* data;
    std::size_t bytes;
  };
  struct Avoided {
    int times = 0;
    std::uint64_t until = 0;
  };
  // Whether a tensor belongs to the pass. A pass that failed has no end(), and its thread goes on;
  // the first question from outside a pass closes it.
  bool asks();

  std::vector<std::size_t> bytes_;
  Callbacks callbacks_;
  std::set<std::size_t> sizes_;  // Other tensors are none of our business.
  std::vector<Avoided> avoided_;
  std::uint64_t passes_ = 0;

  std::atomic<bool> open_ = false;
  int pass_ = -1;  // In which it began.
  std::vector<Allocation> expected_;
  std::size_t next_ = 0;
  std::vector<Allocation> seen_;
  std::vector<Made> made_;  // Since the last gradient.
};

}  // namespace lockstep::parallel
