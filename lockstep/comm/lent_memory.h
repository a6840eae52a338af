// An allocator that lends memory to tensors while LibTorch makes them, so that what would be copied
// is made in place.
#pragma once

#include <c10/core/Storage.h>

#include <cstddef>
#include <memory>

#include "lockstep/base/environment.h"

namespace lockstep::comm {

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
  // Whether another one would be in its way.
  [[nodiscard]] virtual bool is_busy() const = 0;
};

// Puts an allocator in front of LibTorch's for the CPU, which stays there. To be called while the
// program starts, as c10 wants it; harmless when repeated. If LOCKSTEP_ALLOCATE_IN_BUCKETS is 0 it
// turns lending off instead. Steps aside, with one warning, if the program has an allocator of its
// own by c10::SetCPUAllocator().
void prepare_lending(const Environment& environment);

// Whether tensors ask a lender: the allocator is in its place. Warns, once, if another one took it.
bool can_lend();

// Whom this thread's tensors ask from now on; null: nobody.
void set_lender(std::shared_ptr<Lender> lender);
std::shared_ptr<Lender> lender();

// Whether some tensor still has this memory on loan.
bool is_lent(const void* data);

}  // namespace lockstep::comm
