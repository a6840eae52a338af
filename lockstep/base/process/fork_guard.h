// Tells a process from the forks of it.
#pragma once

namespace lockstep {

// True in the process that made it, false in every fork; costs one load.
class ForkGuard {
 public:
  ForkGuard();
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  [[nodiscard]] bool in_owner() const { return *page_ != 0; }

 private:
  volatile char* page_;  // The kernel wipes it in a fork.
};

}  // namespace lockstep
