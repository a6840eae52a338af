#include "lockstep/comm/store_call.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <stdexcept>

#include "tests/support/child.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

TEST(Within, WaitsForTheEndOfTheCall) {
  int calls = 0;
  EXPECT_TRUE(within(std::chrono::seconds(60), [&] { ++calls; }));
  EXPECT_EQ(calls, 1);
}

TEST(Within, WhatTheCallThrowsIsLost) {
  EXPECT_TRUE(within(std::chrono::seconds(60), [] { throw std::runtime_error("gone"); }));
  EXPECT_TRUE(within(std::chrono::seconds(60), [] { throw 1; }));
}

TEST(Within, LeavesALateCallBehindWithWhatItOwns) {
  // In a process of its own: spawn() of other tests wants no thread that is about to end.
  const int status = test::run_in_child([] {
    const auto go_on = std::make_shared<std::promise<void>>();
    const auto ended = std::make_shared<std::promise<void>>();
    const auto has_ended = ended->get_future();
    const bool in_time = within(milliseconds(20), [go_on, ended] {
      go_on->get_future().wait();
      ended->set_value();
    });
    go_on->set_value();
    has_ended.wait();
    return in_time ? 1 : 0;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lockstep::comm
