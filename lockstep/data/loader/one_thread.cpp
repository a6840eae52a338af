#include "lockstep/data/loader/one_thread.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace lockstep::data {

void use_one_thread() {
  at::get_num_threads();  // LibTorch sets the number when a thread first asks; not later.
  // The one of the OpenMP that LibTorch has loaded: a second one must not be linked.
  if (void* set = ::dlsym(RTLD_DEFAULT, "omp_set_num_threads")) {
    reinterpret_cast<void (*)(int)>(set)(1);
  }
}

}  // namespace lockstep::data
