#include "lockstep/net/callback_thread.h"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>
#include <vector>

namespace lockstep::net {
namespace {

constexpr std::chrono::seconds kSoon{30};

TEST(CallbackThread, RunsThemInOrderAndElsewhere) {
  std::vector<int> ran;
  std::thread::id where;
  {
    CallbackThread callbacks;
    callbacks.start();
    for (int i = 0; i < 100; ++i) {
      callbacks.call([&, i] {
        ran.push_back(i);
        where = std::this_thread::get_id();
      });
    }
  }
  ASSERT_EQ(ran.size(), 100U) << "its end waits for them";
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
  }
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(CallbackThread, OneThatThrowsHarmsNobody) {
  bool ran = false;
  {
    CallbackThread callbacks;
    callbacks.start();
    callbacks.call([] { throw std::runtime_error("of the user's own"); });
    callbacks.call([&] { ran = true; });
  }
  EXPECT_TRUE(ran);
}

TEST(CallbackThread, MayBeEndedByACallback) {
  auto callbacks = std::make_unique<CallbackThread>();
  callbacks->start();
  std::promise<void> ready;
  std::promise<bool> ended;
  bool others_ran = false;
  callbacks->call([&] {
    ready.get_future().wait();
    callbacks.reset();
    ended.set_value(others_ran);
  });
  callbacks->call([&] { others_ran = true; });
  ready.set_value();
  auto result = ended.get_future();
  ASSERT_EQ(result.wait_for(kSoon), std::future_status::ready);
  EXPECT_TRUE(result.get()) << "those that are left run first";
}

TEST(CallbackThread, AfterItsEndTheyRunAtOnce) {
  CallbackThread callbacks;
  callbacks.stop();
  bool ran = false;
  callbacks.call([&] { ran = true; });
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace lockstep::net
