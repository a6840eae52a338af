#include "lockstep/comm/backends/hosts/gloo_wait.h"

#include <gmock/gmock.h>

#include <thread>

#include "lockstep/comm/library_errors.h"

namespace lockstep::comm {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::chrono::milliseconds kBriefly{20};

// A work that ends when it is told to.
class Told : public c10d::Work {
 public:
  using c10d::Work::finish;
};

TEST(GlooWait, ReturnsWhenTheWorkIsDone) {
  const GlooWait waiter([] { return false; });
  Told work;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));  // Longer than between two looks.
    work.finish();
  });
  waiter.wait(work);
  later.join();
  EXPECT_FALSE(waiter.left_one_behind(kBriefly));
}

TEST(GlooWait, ThrowsWhatTheWorkFailedWith) {
  const GlooWait waiter([] { return true; });
  Told work;
  work.finish(std::make_exception_ptr(std::runtime_error("no route")));
  EXPECT_THAT([&] { waiter.wait(work); }, ThrowsMessage<std::runtime_error>(HasSubstr("no route")));
  EXPECT_FALSE(waiter.left_one_behind(kBriefly));
}

TEST(GlooWait, LeavesAWorkBehindThatDoesNotEndWithTheGroup) {
  const GlooWait waiter([] { return true; });
  Told work;
  EXPECT_THAT([&] { waiter.wait(work); },
              ThrowsMessage<ConnectionLost>(HasSubstr("Gloo did not notice")));
  EXPECT_TRUE(waiter.left_one_behind(kBriefly));
}

TEST(GlooWait, RemembersAWorkForWhichNobodyWaited) {
  const GlooWait waiter([] { return true; });
  const auto work = c10::make_intrusive<Told>();
  EXPECT_EQ(waiter.remember(work), work);
  EXPECT_TRUE(waiter.left_one_behind(kBriefly));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    work->finish();
  });
  EXPECT_FALSE(waiter.left_one_behind(std::chrono::seconds(30)));
  later.join();
}

}  // namespace
}  // namespace lockstep::comm
