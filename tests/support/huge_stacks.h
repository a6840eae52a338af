// A system that gives no thread. Not under sanitizers, which choose the size of stacks themselves.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>

namespace lockstep::test {

// Stacks larger than the address space, so that no thread can be made.
class HugeStacks {
 public:
  HugeStacks() {
    EXPECT_EQ(::pthread_getattr_default_np(&before_), 0);
    pthread_attr_t huge;
    EXPECT_EQ(::pthread_attr_init(&huge), 0);
    EXPECT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 50), 0);
    EXPECT_EQ(::pthread_setattr_default_np(&huge), 0);
    ::pthread_attr_destroy(&huge);
  }
  ~HugeStacks() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  HugeStacks(const HugeStacks&) = delete;
  HugeStacks& operator=(const HugeStacks&) = delete;

 private:
  pthread_attr_t before_{};
};

}  // namespace lockstep::test
