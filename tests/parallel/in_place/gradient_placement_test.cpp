#include "lockstep/parallel/in_place/gradient_placement.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <thread>

namespace lockstep::parallel {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kElements = 10'000;  // Large enough for a gradient to be placed.

// Passes in which tensors are made and some of them are gradients of three parameters: 0 and 1 are
// of one size, 2 is too small.
class GradientPlacementTest : public ::testing::Test {
 protected:
  void begin() { GradientPlacement::begin(placement_); }
  ~GradientPlacementTest() override { placement_->end(); }

  std::shared_ptr<GradientPlacement> make() {
    const auto place = [this](std::size_t parameter) {
      asked_.push_back(parameter);
      return comm::MemorySource::Memory{memory_[parameter].mutable_data_ptr(),
                                        memory_[parameter].storage()};
    };
    return std::make_shared<GradientPlacement>(
        std::vector<std::size_t>{kElements * 4, kElements * 4, 40},
        GradientPlacement::Callbacks{.place = place, .current_pass = [this] { return pass_; }});
  }

  at::Tensor gradient_made(std::size_t parameter, std::int64_t elements = kElements) {
    auto gradient = at::empty({elements});
    placement_->gradient_made(parameter, gradient);
    return gradient;
  }
  [[nodiscard]] bool in_place(const at::Tensor& tensor, std::size_t parameter) const {
    return tensor.const_data_ptr() == memory_[parameter].const_data_ptr();
  }

  void SetUp() override { comm::install_placement_allocator({}); }

  at::NoGradGuard no_grad_;
  std::vector<at::Tensor> memory_{at::empty({kElements}), at::empty({kElements}), at::empty({10})};
  std::vector<std::size_t> asked_;
  int pass_ = 0;  // That the thread is in.
  std::shared_ptr<GradientPlacement> placement_ = make();
};

TEST_F(GradientPlacementTest, FollowWhatTheLastPassDid) {
  for (int pass = 0; pass < 3; ++pass) {
    begin();
    const auto temporary = at::empty({kElements});
    EXPECT_EQ(in_place(gradient_made(1), 1), pass > 0);
    EXPECT_FALSE(in_place(gradient_made(2, 10), 2));
    EXPECT_EQ(in_place(gradient_made(0), 0), pass > 0);
    EXPECT_FALSE(in_place(temporary, 1));
    const auto later = at::empty({kElements});
    placement_->end();
  }
  EXPECT_THAT(asked_, ElementsAre(1, 0, 1, 0));
  at::empty({kElements});
  EXPECT_EQ(asked_.size(), 4);
}

// The memory of a temporary that is gone may be that of the gradient, which is the second then.
TEST_F(GradientPlacementTest, CountTheLastTensorAtAnAddress) {
  const auto gradient = at::empty({kElements});
  begin();
  placement_->made(gradient.const_data_ptr(), gradient.nbytes());
  placement_->made(gradient.const_data_ptr(), gradient.nbytes());
  placement_->gradient_made(0, gradient);
  placement_->end();
  begin();
  const auto first = at::empty({kElements});
  EXPECT_FALSE(in_place(first, 0));
  EXPECT_TRUE(in_place(gradient_made(0), 0));
}

TEST_F(GradientPlacementTest, LearnAnotherOrder) {
  begin();
  gradient_made(0);
  gradient_made(1);
  placement_->end();
  begin();
  EXPECT_TRUE(in_place(gradient_made(1), 0));  // A wrong guess.
  gradient_made(0);
  placement_->end();
  begin();
  EXPECT_TRUE(in_place(gradient_made(1), 1));
  EXPECT_TRUE(in_place(gradient_made(0), 0));
}

TEST_F(GradientPlacementTest, AParameterMayBeLeftOut) {
  begin();
  gradient_made(0);
  gradient_made(1);
  placement_->end();
  begin();
  placement_->gradient_made(0, at::Tensor());
  EXPECT_TRUE(in_place(gradient_made(1), 1));
}

TEST_F(GradientPlacementTest, GradientsThatWereAddedToOthersTeachNothing) {
  begin();
  gradient_made(0);
  placement_->end();
  begin();
  placement_->gradient_made(0, at::empty({3}));
  placement_->end();
  begin();
  EXPECT_TRUE(in_place(gradient_made(0), 0));
}

// In passes 1, 6 and 15 there is a guess, which is told to be wrong.
TEST_F(GradientPlacementTest, AreAvoidedForLongerEachTime) {
  std::vector<int> guessed;
  for (int pass = 0; pass < 20; ++pass) {
    begin();
    if (in_place(gradient_made(0), 0)) {
      guessed.push_back(pass);
      placement_->avoid(0);
    }
    placement_->end();
  }
  EXPECT_THAT(guessed, ElementsAre(1, 6, 15));
}

// Nobody says that a failed pass has ended.
TEST_F(GradientPlacementTest, AreClosedByTheFirstTensorOutsideOfAPass) {
  begin();
  gradient_made(0);
  placement_->end();
  begin();
  EXPECT_EQ(comm::memory_source(), placement_);
  pass_ = -1;
  EXPECT_FALSE(in_place(at::empty({kElements}), 0));
  EXPECT_EQ(comm::memory_source(), nullptr);
  pass_ = 1;
  EXPECT_FALSE(in_place(at::empty({kElements}), 0));
  begin();
  EXPECT_TRUE(in_place(gradient_made(0), 0));  // What was known before is still known.
}

TEST_F(GradientPlacementTest, MayBeClosedByAnotherThread) {
  begin();
  gradient_made(0);
  placement_->end();
  begin();
  std::thread([this] { placement_->close(); }).join();
  EXPECT_FALSE(in_place(at::empty({kElements}), 0));
  pass_ = -1;
  at::empty({1});
  EXPECT_EQ(comm::memory_source(), nullptr);
}

TEST_F(GradientPlacementTest, TheFirstOfTwoIsAskedUntilItsPassIsOver) {
  const auto second = make();
  begin();
  GradientPlacement::begin(second);
  EXPECT_EQ(comm::memory_source(), placement_);
  second->end();
  EXPECT_EQ(comm::memory_source(), placement_);
  pass_ = 1;
  GradientPlacement::begin(second);
  EXPECT_EQ(comm::memory_source(), second);
  placement_->end();
  EXPECT_EQ(comm::memory_source(), second);
  second->end();
  EXPECT_EQ(comm::memory_source(), nullptr);
}

// Its place is not given to the next one, and the next one is still known.
TEST_F(GradientPlacementTest, AGradientThatIsNoMemoryIsPassedOver) {
  const auto sparse = at::zeros({kElements}, at::TensorOptions(at::kFloat).layout(at::kSparse));
  for (int pass = 0; pass < 3; ++pass) {
    begin();
    EXPECT_EQ(in_place(gradient_made(0), 0), pass > 0);
    EXPECT_EQ(in_place(gradient_made(1), 1), pass > 0);
    placement_->end();
  }
  asked_.clear();
  begin();
  placement_->gradient_made(0, sparse);
  EXPECT_TRUE(in_place(gradient_made(1), 1));
  placement_->end();
  EXPECT_THAT(asked_, ElementsAre(1));
  begin();
  EXPECT_TRUE(in_place(gradient_made(1), 1));
  EXPECT_THAT(asked_, ElementsAre(1, 1));  // The first of them has taught nothing.
}

TEST_F(GradientPlacementTest, GradientsOfAGraphAreNotPlaced) {
  begin();
  gradient_made(0);
  placement_->end();
  const at::AutoGradMode create_graph(true);
  begin();
  EXPECT_FALSE(in_place(gradient_made(0), 0));
}

}  // namespace
}  // namespace lockstep::parallel
