#include "lockstep/data/loader/one_thread.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <thread>

namespace lockstep::data {
namespace {

int threads_of_a_new_thread(bool one) {
  int threads = 0;
  std::thread([&] {
    if (one) {
      use_one_thread();
    }
    threads = at::get_num_threads();
  }).join();
  return threads;
}

TEST(UseOneThread, HoldsForTheCallingThreadAlone) {
  at::set_num_threads(3);
  EXPECT_EQ(threads_of_a_new_thread(/*one=*/true), 1);
  EXPECT_EQ(at::get_num_threads(), 3);
  EXPECT_EQ(threads_of_a_new_thread(/*one=*/false), 3);
}

}  // namespace
}  // namespace lockstep::data
