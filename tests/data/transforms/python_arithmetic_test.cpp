#include "lockstep/data/transforms/python_arithmetic.h"

#include <gtest/gtest.h>

namespace lockstep::data {
namespace {

// The numbers are Python's. A product and a sum that are rounded once give others.
TEST(PythonArithmetic, RotatesAsPillow) {
  const AffineMatrix matrix = rotation_matrix(20.36781905246913, {115, 39});
  const AffineMatrix expected = {0x1.dffd111d05202p-1, -0x1.64660dd606752p-2,
                                 0x1.53b57a009aadbp+4, 0x1.64660dd606752p-2,
                                 0x1.dffd111d05202p-1, -0x1.988e97bad96c0p+1};
  EXPECT_EQ(matrix, expected);
}

TEST(PythonArithmetic, StretchesAsPillow) {
  EXPECT_EQ(stretch_table(1, 22)[22], 254);
  EXPECT_EQ(stretch_table(1, 26)[11], 101);
  EXPECT_EQ(stretch_table(1, 26)[26], 255);
  EXPECT_EQ(stretch_table(1, 26)[0], 0) << "darker than the darkest";
  EXPECT_EQ(stretch_table(1, 26)[255], 255);
}

}  // namespace
}  // namespace lockstep::data
