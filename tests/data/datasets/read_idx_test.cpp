#include "lockstep/data/datasets/read_idx.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include "tests/data/files.h"

namespace lockstep::data {
namespace {

at::Tensor read(const std::string& content) { return read_idx(MemoryFile(content).path()); }

TEST(ReadIdx, GivesATensorThatOwnsItsBytes) {
  const at::Tensor tensor = read(idx_header(0x08, {2, 3}) + "abcdef");
  const at::Tensor expected = at::tensor({'a', 'b', 'c', 'd', 'e', 'f'}, at::kByte).view({2, 3});
  EXPECT_TRUE(at::equal(tensor, expected));
}

TEST(ReadIdx, KeepsTheTypeOfTheElements) {
  const std::string zeros(8, '\0');
  EXPECT_EQ(read(idx_header(0x08, {8}) + zeros).scalar_type(), at::kByte);
  EXPECT_EQ(read(idx_header(0x09, {8}) + zeros).scalar_type(), at::kChar);
  EXPECT_EQ(read(idx_header(0x0b, {4}) + zeros).scalar_type(), at::kShort);
  EXPECT_EQ(read(idx_header(0x0c, {2}) + zeros).scalar_type(), at::kInt);
  EXPECT_EQ(read(idx_header(0x0d, {2}) + zeros).scalar_type(), at::kFloat);
  EXPECT_EQ(read(idx_header(0x0e, {1}) + zeros).scalar_type(), at::kDouble);
}

TEST(ReadIdx, AnEmptyArrayIsAnEmptyTensor) {
  EXPECT_EQ(read(idx_header(0x08, {0, 28, 28})).sizes(), (std::vector<std::int64_t>{0, 28, 28}));
}

}  // namespace
}  // namespace lockstep::data
