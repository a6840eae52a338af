// Ranks that share a GPU over NCCL: 2.30 and later let them if they are told to.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <stdexcept>

#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"

namespace lockstep::testing {

inline constexpr const char* kNcclBesideShm = "cpu:shm,cuda:nccl";

// What LibTorch has loaded, which need not be what it was built with: LD_PRELOAD=libnccl.so.2.
inline bool nccl_can_share_gpus() {
  const auto get = reinterpret_cast<int (*)(int*)>(::dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  int version = 0;
  return get != nullptr && get(&version) == 0 && version >= 23000;  // 2.30.0.
}

// While it lives, ranks that are started may share a GPU.
class SharedOverNccl {
 public:
  SharedOverNccl() { ::setenv(kSwitch, "1", /*replace=*/1); }
  SharedOverNccl(const SharedOverNccl&) = delete;
  SharedOverNccl& operator=(const SharedOverNccl&) = delete;
  ~SharedOverNccl() { ::unsetenv(kSwitch); }

 private:
  static constexpr const char* kSwitch = "NCCL_MULTI_RANK_GPU_ENABLE";
};

}  // namespace lockstep::testing

// At the beginning of a test.
#define LOCKSTEP_SHARES_GPUS_OVER_NCCL()                                                \
  if (!::lockstep::testing::nccl_can_share_gpus()) {                                    \
    GTEST_SKIP() << "several ranks on one GPU need NCCL 2.30 or later: LD_PRELOAD one"; \
  }                                                                                     \
  const ::lockstep::testing::SharedOverNccl shared_over_nccl
