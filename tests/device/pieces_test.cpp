#include "lockstep/device/pieces.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace lockstep::device {
namespace {

TEST(Pieces, TensorsStayWholeWhereNothingIsRecorded) {
  const std::vector<at::Tensor> tensors{at::ones({300, 400}), at::ones({7})};
  const auto found = Pieces(tensors).of(tensors);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[0].is_same(tensors[0]));
  EXPECT_TRUE(found[1].is_same(tensors[1]));
  EXPECT_EQ(Pieces({}).of({}).size(), 0U);
}

}  // namespace
}  // namespace lockstep::device
