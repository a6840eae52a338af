#include "lockstep/checkpoint/value.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/checkpoint/values.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(ExtentFault, AcceptsViewsAndRefusesWhatLeavesTheStorage) {
  Tensor tensor = tensor_of({1, 2, 3, 4, 5, 6});
  const auto fault = [&](std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides,
                         std::int64_t offset) {
    tensor.sizes = std::move(sizes);
    tensor.strides = std::move(strides);
    tensor.offset = offset;
    return extent_fault(tensor);
  };
  EXPECT_EQ(fault({3, 2}, {1, 3}, 0), "");
  EXPECT_EQ(fault({}, {}, 5), "");
  EXPECT_EQ(fault({1000}, {0}, 5), "");     // Expanded: one element, shown often.
  EXPECT_EQ(fault({0, 7}, {7, 1}, 0), "");  // Nothing.
  EXPECT_THAT(fault({3, 2}, {1, 3}, 1), HasSubstr("element 6 of a storage of 6"));
  EXPECT_THAT(fault({}, {}, 6), HasSubstr("element 6"));
  EXPECT_THAT(fault({2}, {-1}, 3), HasSubstr("negative stride"));
  EXPECT_THAT(fault({-1}, {1}, 0), HasSubstr("negative size"));
  EXPECT_THAT(fault({1}, {1}, -1), HasSubstr("before its storage"));
  EXPECT_THAT(fault({2}, {1, 1}, 0), HasSubstr("1 sizes and 2 strides"));
  EXPECT_THAT(fault({kMax, 2}, {1, 1}, 0), HasSubstr("more elements than"));
  EXPECT_THAT(fault({0, kMax, 2}, {1, 1, 1}, 0), HasSubstr("more elements than"));
  EXPECT_THAT(fault({3}, {kMax}, 0), HasSubstr("further than"));
  EXPECT_THAT(fault({2}, {1}, kMax), HasSubstr("further than"));
}

TEST(ContiguousBytes, AreThoseOfAnOrderedPiece) {
  Tensor tensor = tensor_of({1, 2, 3, 4, 5, 6});
  tensor.sizes = {2, 1, 2};
  tensor.strides = {2, 99, 1};  // The stride of one element means nothing.
  tensor.offset = 1;
  ASSERT_TRUE(contiguous_bytes(tensor));
  EXPECT_EQ(contiguous_bytes(tensor)->data(), tensor.storage->bytes.data() + 4);
  EXPECT_EQ(contiguous_bytes(tensor)->size(), 16U);
  tensor.strides = {1, 1, 2};
  EXPECT_FALSE(contiguous_bytes(tensor));
}

TEST(Value, FindsKeysAndNamesTheTensorOfAStorage) {
  const Value root = small_checkpoint();
  const auto* bias = root.find("model")->find("bias")->get_if<Tensor>();
  EXPECT_EQ(name_of_storage(root, *bias->storage), "model.bias");
  EXPECT_EQ(name_of_storage(root, *storage_of("")), "");
  EXPECT_EQ(root.find("nothing"), nullptr);
  EXPECT_EQ(root.find("epoch")->find("x"), nullptr);
  EXPECT_EQ(kind_of(*root.find("args")), "a dictionary");
}

TEST(DTypes, AreInTheOrderOfTheEnumeration) {
  for (const DTypeInfo& type : dtypes()) {
    EXPECT_EQ(&info(type.dtype), &type);
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
