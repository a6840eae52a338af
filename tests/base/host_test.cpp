#include "lockstep/base/host.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/utsname.h>

#include <thread>

#include "tests/support/child.h"

namespace lockstep {
namespace {

TEST(HostName, IsTheKernelsName) {
  utsname kernel{};
  ASSERT_EQ(::uname(&kernel), 0);
  EXPECT_EQ(host_name(), kernel.nodename);
}

TEST(UsableCores, AreAtLeastOneAndNoMoreThanTheMachineHas) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(UsableCores, FollowTheAffinityMask) {
  const int status = test::run_in_child([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
    return ::sched_setaffinity(0, sizeof one, &one) == 0 && usable_cores() == 1 ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lockstep
