// Has gradients made in their buckets, where they would be copied to.
//
// autograd makes every gradient anew in each backward, and does it the same way each time: what the
// backward before did tells which of the tensors that are made now will be which gradient. It is a
// guess. Where it is wrong, some other tensor lies in the bucket for a while; the caller sees that
// by is_lent() and must leave that memory alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "lockstep/comm/lent_memory.h"

namespace lockstep::parallel {

class Birthplaces final : public comm::Lender {
 public:
  struct Surroundings {
    // The memory in which a parameter's gradient is wanted, or nothing if it cannot be used now.
    std::function<Loan(std::size_t parameter)> place;
    // The backward pass that this thread is in; negative if none.
    std::function<int()> current_pass;
  };

  // `bytes` of each gradient, 0 where it cannot be made elsewhere.
  Birthplaces(std::vector<std::size_t> bytes, Surroundings surroundings);

  // This thread is in a backward pass, whose tensors ask from now on, until end(). An end without a
  // beginning is harmless. Nothing begins with create_graph, because such gradients belong to the
  // graph, nor where the pass asks another lender already.
  static void begin(const std::shared_ptr<Birthplaces>& places);
  void end();
  // No end of a pass: nothing is learned of it. Any thread may call it, while the one that was in
  // the pass is in none; that one forgets the lender when it makes its next tensor.
  void close();
  // A parameter's gradient is there; it may be undefined.
  void born(std::size_t parameter, const at::Tensor& gradient);
  // No guesses for this one for some passes; for more of them each time.
  void avoid(std::size_t parameter);

  Loan lend(std::size_t bytes) override;
  void made(const void* data, std::size_t bytes) override;
  [[nodiscard]] bool is_busy() const override;

 private:
  struct Birth {
    std::size_t parameter;
    std::size_t nth;  // Of the tensors of its size that were made since the birth before.
  };
  struct Made {
    const void* data;
    std::size_t bytes;
  };
  struct Avoided {
    int times = 0;
    std::uint64_t until = 0;
  };
  // Whether a tensor is one of the pass. A pass that failed has no end(), and its thread goes on:
  // whoever asks outside of a pass closes it.
  bool asks();

  std::vector<std::size_t> bytes_;
  Surroundings surroundings_;
  std::set<std::size_t> sizes_;  // Other tensors are none of our business.
  std::vector<Avoided> avoided_;
  std::uint64_t passes_ = 0;

  std::atomic<bool> open_ = false;
  int pass_ = -1;  // In which it began.
  std::vector<Birth> expected_;
  std::size_t next_ = 0;
  std::vector<Birth> seen_;
  std::vector<Made> made_;  // Since the last birth.
};

}  // namespace lockstep::parallel
