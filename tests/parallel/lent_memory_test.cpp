#include "lockstep/parallel/lent_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <thread>

namespace lockstep::parallel {
namespace {

// Lends one piece of memory to every tensor of its size while it is free.
class OnePlace : public Lender {
 public:
  explicit OnePlace(at::Tensor memory) : memory_(std::move(memory)) {}

  Loan lend(std::size_t bytes) override {
    if (bytes != memory_.nbytes() || is_lent(memory_.const_data_ptr())) {
      return {};
    }
    return {memory_.mutable_data_ptr(), memory_.storage()};
  }
  void made(const void* data, std::size_t /*bytes*/) override { last_ = data; }
  [[nodiscard]] bool is_busy() const override { return true; }

  [[nodiscard]] const void* last() const { return last_; }
  void forget() { memory_ = at::zeros({1}); }

 private:
  at::Tensor memory_;
  const void* last_ = nullptr;
};

class LentMemory : public ::testing::Test {
 protected:
  LentMemory() {
    prepare_lending();
    set_lender(lender_);
  }
  ~LentMemory() override { set_lender(nullptr); }

  at::Tensor memory_ = at::full({1000}, 7.0F);
  std::shared_ptr<OnePlace> lender_ = std::make_shared<OnePlace>(memory_);
};

TEST_F(LentMemory, TensorsAreMadeInIt) {
  const auto other = at::empty({999});
  EXPECT_EQ(lender_->last(), other.const_data_ptr());
  auto tensor = at::empty({1000});
  EXPECT_EQ(lender_->last(), tensor.const_data_ptr());
  EXPECT_EQ(tensor.const_data_ptr(), memory_.const_data_ptr());
  EXPECT_FALSE(tensor.is_alias_of(memory_));
  EXPECT_TRUE(is_lent(memory_.const_data_ptr()));
  const auto second = at::zeros({1000});
  EXPECT_NE(second.const_data_ptr(), memory_.const_data_ptr());
  EXPECT_TRUE(memory_.eq(7).all().item<bool>());
  tensor.fill_(3);
  EXPECT_TRUE(memory_.eq(3).all().item<bool>());
  tensor = at::Tensor();
  EXPECT_FALSE(is_lent(memory_.const_data_ptr()));
  EXPECT_EQ(at::empty({1000}).const_data_ptr(), memory_.const_data_ptr());
}

TEST_F(LentMemory, IsKeptForTheTensorThatHasIt) {
  auto tensor = at::empty({1000});
  memory_ = at::Tensor();
  lender_->forget();
  tensor.fill_(5);  // AddressSanitizer looks.
  EXPECT_TRUE(tensor.eq(5).all().item<bool>());
  const void* const data = tensor.const_data_ptr();
  tensor = at::Tensor();
  EXPECT_FALSE(is_lent(data));
}

TEST_F(LentMemory, ATensorGrowsOutOfIt) {
  auto tensor = at::empty({1000});
  tensor.fill_(4).resize_({5000});
  EXPECT_FALSE(is_lent(memory_.const_data_ptr()));
  EXPECT_NE(tensor.const_data_ptr(), memory_.const_data_ptr());
  EXPECT_TRUE(tensor.narrow(0, 0, 1000).eq(4).all().item<bool>());
}

// As oneDNN does.
TEST_F(LentMemory, IsAlsoAllocatedAndFreedRaw) {
  auto* const allocator = c10::GetCPUAllocator();
  for (const std::size_t bytes : {4000UL, 123UL}) {
    void* const data = allocator->raw_allocate(bytes);
    EXPECT_EQ(data == memory_.const_data_ptr(), bytes == 4000);
    allocator->raw_deallocate(data);
    EXPECT_FALSE(is_lent(data));
  }
  EXPECT_EQ(at::empty({5}).storage().data_ptr().get_deleter(), allocator->raw_deleter());
}

TEST_F(LentMemory, OtherThreadsGetTheirOwn) {
  std::thread([this] {
    EXPECT_NE(at::empty({1000}).const_data_ptr(), memory_.const_data_ptr());
  }).join();
  auto tensor = at::empty({1000});
  std::thread([moved = std::move(tensor)]() mutable { moved = at::Tensor(); }).join();
  EXPECT_FALSE(is_lent(memory_.const_data_ptr()));
}

TEST_F(LentMemory, NobodyIsAskedAnyMore) {
  EXPECT_EQ(lender(), lender_);
  set_lender(nullptr);
  EXPECT_EQ(lender(), nullptr);
  EXPECT_NE(at::empty({1000}).const_data_ptr(), memory_.const_data_ptr());
}

}  // namespace
}  // namespace lockstep::parallel
