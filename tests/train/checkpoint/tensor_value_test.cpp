#include "lockstep/train/checkpoint/tensor_value.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include <vector>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::shared_ptr<void> block_of(std::size_t bytes) {
  auto memory =
      std::make_shared<std::vector<std::max_align_t>>(bytes / sizeof(std::max_align_t) + 1);
  return {memory, memory->data()};
}

TEST(Snapshot, HasEveryTypeAndTheViewsOfOneStorage) {
  std::vector<at::Tensor> tensors;
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
                          at::kShort, at::kChar, at::kByte, at::kBool, at::kComplexFloat}) {
    tensors.push_back(at::randn({2, 3}).mul(3).to(type));
  }
  const auto whole = at::arange(6).view({2, 3});
  tensors.push_back(whole.t());
  tensors.push_back(whole[1]);
  tensors.push_back(at::empty({0, 3}));
  tensors.push_back(at::full({}, 2.5));
  Snapshot snapshot;
  std::vector<checkpoint::Tensor> taken;
  for (const auto& tensor : tensors) {
    taken.push_back(snapshot.take(tensor));
  }
  snapshot.copy_to(block_of(snapshot.bytes()));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto before = tensors[i].clone();
    const auto back = to_tensor(taken[i], {});
    EXPECT_TRUE(back.equal(before)) << i;
    EXPECT_EQ(back.strides(), tensors[i].strides()) << i;
    EXPECT_EQ(back.scalar_type(), tensors[i].scalar_type()) << i;
  }
  EXPECT_EQ(taken[11].storage, taken[12].storage);
}

TEST(Snapshot, ATensorThatIsNotDenseIsRefused) {
  Snapshot snapshot;
  EXPECT_THAT([&] { snapshot.take(at::Tensor()); }, ThrowsMessage<UsageError>(HasSubstr("dense")));
  EXPECT_THAT([&] { snapshot.take(at::full({2}, 1.0).to_sparse()); },
              ThrowsMessage<UsageError>(HasSubstr("dense")));
}

TEST(Snapshot, OneStorageOfTwoTypesIsRefusedAsInPython) {
  Snapshot snapshot;
  const auto tensor = at::randn({2});
  snapshot.take(tensor);
  EXPECT_NO_THROW(snapshot.take(tensor.view({2, 1})));
  EXPECT_THAT([&] { snapshot.take(tensor.view(at::kInt)); },
              ThrowsMessage<UsageError>(HasSubstr("shown as Float and as Int")));
}

// A reader would not find the elements that it was told of.
TEST(Snapshot, AStorageIsTakenInWholeElements) {
  const auto bytes = at::empty({10}, at::kByte);
  auto tensor = at::empty({0}, at::kFloat);
  tensor.set_(bytes.storage(), 0, {2}, {1});
  Snapshot snapshot;
  const auto taken = snapshot.take(tensor);
  snapshot.copy_to(block_of(snapshot.bytes()));
  EXPECT_EQ(taken.storage->bytes.size(), 8U);
}

TEST(ToTensor, ADeviceWithoutContentsIsRefused) {
  checkpoint::Tensor tensor{checkpoint::DType::kFloat32, {0}, {1}, 0, false, nullptr};
  tensor.storage = std::make_shared<checkpoint::Storage>(checkpoint::Storage{{}, "meta", nullptr});
  EXPECT_THAT([&] { to_tensor(tensor, {}); }, ThrowsMessage<UsageError>(HasSubstr("'meta'")));
  EXPECT_NO_THROW(to_tensor(tensor, "cpu"));
}

TEST(ToTensor, BytesThatAreNotAlignedAreCopied) {
  const auto source = at::randn({4});
  auto memory = std::make_shared<std::vector<std::byte>>(17);
  std::memcpy(memory->data() + 1, source.data_ptr(), 16);
  checkpoint::Tensor tensor{checkpoint::DType::kFloat32, {2}, {1}, 2, true, nullptr};
  tensor.storage = std::make_shared<checkpoint::Storage>(
      checkpoint::Storage{std::span(*memory).subspan(1), "cpu", memory});
  const auto result = to_tensor(tensor, {});
  EXPECT_TRUE(result.detach().equal(source.slice(0, 2, 4)));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(result.data_ptr()) % 4, 0U);
  EXPECT_TRUE(result.requires_grad());
}

}  // namespace
}  // namespace lockstep
