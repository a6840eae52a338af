#include "lockstep/parallel/in_place/bucket_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/placement_allocator.h"
#include "lockstep/parallel/buckets/gradient_bucket.h"
#include "tests/parallel/buckets/averages.h"

namespace lockstep::parallel {
namespace {

using testing::average_of;

at::Tensor filled(std::int64_t elements, at::TensorOptions options) {
  return at::full({elements}, 99, options);
}

const Bucket kSecondFirst{.parameters = {1, 0}, .limit = 0};

class BucketMemoryTest : public ::testing::Test {
 protected:
  // Gradients of 1.
  void put_all() {
    for (std::size_t i = 0; i < 2; ++i) {
      auto& tensor = parameters_[1 - i].tensor;
      tensor.mutable_grad() = at::ones_like(tensor);
      bucket_.put(i);
    }
  }

  std::vector<Parameter> parameters_{{.name = "a", .tensor = at::ones({2, 3}).requires_grad_()},
                                     {.name = "b", .tensor = at::ones({4}).requires_grad_()}};
  GradientBucket bucket_{kSecondFirst, parameters_, GradientBucket::Mode::kViews, filled,
                         average_of(4, Average::Divide::kInSum)};
};

TEST_F(BucketMemoryTest, OffersThePlaceOfItsLargestGradientWhileThatIsUndefined) {
  EXPECT_EQ(bucket_.memory().memory_for(0).data, nullptr);  // Not aligned: the other one is.
  const void* const place = bucket_.contents().narrow(0, 4, 6).const_data_ptr();
  EXPECT_EQ(bucket_.memory().memory_for(1).data, place);
  parameters_[0].tensor.mutable_grad() = at::ones({2, 3});
  EXPECT_EQ(bucket_.memory().memory_for(1).data, nullptr);
}

TEST_F(BucketMemoryTest, DoesNotLendWhatIsInUse) {
  const auto is_offered = [&] { return bucket_.memory().memory_for(1).data != nullptr; };
  bucket_.put(1);  // An undefined gradient stays undefined.
  EXPECT_FALSE(is_offered());
  bucket_.begin();
  EXPECT_TRUE(is_offered());
  auto& grad = parameters_[0].tensor.mutable_grad();
  grad = at::ones({2, 3});
  bucket_.put(1);
  bucket_.begin();
  auto last_step = grad;
  grad = at::Tensor();
  EXPECT_FALSE(is_offered());
  last_step = last_step.view({6});
  EXPECT_FALSE(is_offered());
  std::optional<c10::Storage> memory = last_step.storage();
  last_step = at::Tensor();
  EXPECT_FALSE(is_offered());
  memory.reset();
  EXPECT_TRUE(is_offered());
  {
    const auto taken = bucket_.memory().memory_for(1);
    EXPECT_FALSE(is_offered());
  }
  EXPECT_TRUE(is_offered());
  bucket_.memory().move_out();
  EXPECT_FALSE(is_offered());
  bucket_.begin();
  EXPECT_TRUE(is_offered());
}

TEST_F(BucketMemoryTest, MovesToOtherMemoryWhereThereIsNoMoreOfItsOwn) {
  int allocated = 0;
  GradientBucket bucket(
      kSecondFirst, parameters_, GradientBucket::Mode::kViews,
      [&](std::int64_t elements, at::TensorOptions options) {
        return allocated++ == 0 ? filled(elements, options) : throw IoError("full");
      },
      average_of(4, Average::Divide::kInSum));
  bucket.put(0);
  bucket.put(1);
  const auto before = bucket.contents().fill_(3);
  EXPECT_EQ(bucket.memory().move_out(), 40);
  EXPECT_TRUE(bucket.contents().equal(before));
  EXPECT_FALSE(bucket.contents().is_alias_of(before));
}

TEST_F(BucketMemoryTest, MovesOutWithWhatWasPut) {
  put_all();
  const auto before = bucket_.contents();
  bucket_.memory().move_out();
  EXPECT_FALSE(bucket_.contents().is_alias_of(before));
  EXPECT_TRUE(bucket_.contents().equal(before));
  for (const auto& parameter : parameters_) {
    EXPECT_TRUE(parameter.tensor.grad().is_alias_of(bucket_.contents()));
  }
}

// One of two gradients is still there; the other is gone or kept.
TEST_F(BucketMemoryTest, IsLeftForAKeptGradientAlongWithWhatIsToBeAddedTo) {
  put_all();
  bucket_.begin();
  auto& there = parameters_[0].tensor.mutable_grad();
  auto kept = std::exchange(parameters_[1].tensor.mutable_grad(), at::Tensor());
  const auto move = bucket_.memory().leave_if_kept();
  EXPECT_TRUE(move.moved);
  EXPECT_EQ(move.copied, there.nbytes());
  EXPECT_TRUE(there.equal(at::ones({2, 3})));
  EXPECT_TRUE(there.is_alias_of(bucket_.contents()));
  EXPECT_FALSE(kept.is_alias_of(bucket_.contents()));
  EXPECT_FALSE(bucket_.memory().leave_if_kept().moved);
  there = there.detach();  // As zero_grad(false) does.
  EXPECT_FALSE(bucket_.memory().leave_if_kept().moved);
}

// Each time, somebody keeps both gradients, and with them the memory.
TEST_F(BucketMemoryTest, GivesNoViewsAfterItWasLeftThreeTimes) {
  std::vector<at::Tensor> kept;
  for (int time = 0; time < 3; ++time) {
    EXPECT_TRUE(bucket_.memory().gives_views());
    put_all();
    bucket_.begin();
    for (const auto& parameter : parameters_) {
      kept.push_back(std::exchange(parameter.tensor.mutable_grad(), at::Tensor()));
    }
    EXPECT_TRUE(bucket_.memory().leave_if_kept().moved);
  }
  EXPECT_FALSE(bucket_.memory().gives_views());
  put_all();
  EXPECT_FALSE(parameters_[0].tensor.grad().is_alias_of(bucket_.contents()));
  EXPECT_EQ(bucket_.memory().memory_for(1).data, nullptr);
}

// Offers the place of a bucket's second gradient.
struct SecondPlace : comm::MemorySource {
  explicit SecondPlace(const GradientBucket& whose) : bucket(whose) {}
  Memory memory_for(std::size_t /*bytes*/) override { return bucket.memory().memory_for(1); }
  void made(const void* /*data*/, std::size_t /*bytes*/) override {}
  [[nodiscard]] bool is_busy() const override { return true; }
  const GradientBucket& bucket;
};

// autograd holds a gradient that it made, and the tensor that this is a view of.
TEST_F(BucketMemoryTest, KnowsWhetherOthersKeepAGradientThatWasMadeInIt) {
  comm::install_placement_allocator({});
  comm::set_memory_source(std::make_shared<SecondPlace>(bucket_));
  auto base = at::empty({6});
  comm::set_memory_source(nullptr);
  ASSERT_TRUE(comm::is_placed(base.const_data_ptr()));
  const auto made = base.view({2, 3});
  auto& grad = parameters_[0].tensor.mutable_grad();
  grad = made.detach();
  const auto is_kept_besides = [&](const auto& /*held*/) {
    return bucket_.memory().is_kept_by_others(1, made);
  };
  EXPECT_TRUE(is_kept_besides(base));
  base = at::Tensor();
  EXPECT_FALSE(is_kept_besides(nullptr));
  EXPECT_TRUE(is_kept_besides(at::Tensor(made)));
  EXPECT_TRUE(is_kept_besides(at::Tensor(grad)));
  EXPECT_TRUE(is_kept_besides(c10::Storage(grad.storage())));
  EXPECT_FALSE(is_kept_besides(nullptr));
}

}  // namespace
}  // namespace lockstep::parallel
