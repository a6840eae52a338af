// Lends memory to tensors while LibTorch makes them, so that what would be copied is made in place.
#pragma once

#include <c10/core/Storage.h>

#include <cstddef>
#include <memory>

namespace lockstep::parallel {

// Is asked for every tensor that a thread makes on the CPU.
class Lender {
 public:
  struct Loan {
    void* data = nullptr;
    c10::Storage owner;  // Of the memory; kept until the tensor is gone.
  };

  virtual ~Lender() = default;
  // Memory for a tensor of so many bytes, or nothing: then it gets memory as always.
  virtual Loan lend(std::size_t bytes) = 0;
  // Where that tensor is.
  virtual void made(const void* data, std::size_t bytes) = 0;
};

// From now on this thread's tensors ask that one; null: nobody. The first call puts an allocator in
// front of LibTorch's for the CPU, which stays there; other threads pass through it.
void set_lender(std::shared_ptr<Lender> lender);

// Whether some tensor still has this memory on loan.
bool is_lent(const void* data);

}  // namespace lockstep::parallel
