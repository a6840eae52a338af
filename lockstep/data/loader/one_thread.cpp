#include "lockstep/data/loader/one_thread.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace lockstep::data {
namespace {

// Of the OpenMP that LibTorch has loaded: a second one must not be linked. Null without one.
template <typename Function>
Function* openmp(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

void set_threads_of_openmp(int number) {
  if (auto* const set = openmp<void(int)>("omp_set_num_threads")) {
    set(number);
  }
}

int threads_of_openmp() {
  auto* const get = openmp<int()>("omp_get_max_threads");
  return get != nullptr ? get() : 1;
}

}  // namespace

void use_one_thread() {
  at::get_num_threads();  // LibTorch sets the number when a thread first asks; not later.
  set_threads_of_openmp(1);
}

OneThread::OneThread() {
  at::get_num_threads();
  before_ = threads_of_openmp();
  set_threads_of_openmp(1);
}

OneThread::~OneThread() { set_threads_of_openmp(before_); }

}  // namespace lockstep::data
