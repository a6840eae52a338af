#include "lockstep/comm/host_links.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

// The collectives themselves are tested through HostsBackend.
namespace lockstep::comm {
namespace {

TEST(HostLinks, ReducesWhatSharedMemoryAndGlooCanDoTogether) {
  using Op = c10d::ReduceOp;
  EXPECT_TRUE(HostLinks::reduces(at::zeros({1}, at::kShort), Op::SUM));
  EXPECT_TRUE(HostLinks::reduces(at::zeros({1}, at::kBool), Op::BOR));
  EXPECT_FALSE(HostLinks::reduces(at::zeros({1}, at::kBool), Op::AVG));
  EXPECT_TRUE(HostLinks::reduces(at::zeros({1}, at::kComplexFloat), Op::SUM));
  EXPECT_FALSE(HostLinks::reduces(at::zeros({1}, at::kComplexFloat), Op::PRODUCT));
  EXPECT_FALSE(HostLinks::reduces(at::zeros({1}, at::kComplexHalf), Op::SUM));
}

}  // namespace
}  // namespace lockstep::comm
