#include "lockstep/parallel/birthplaces.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>

namespace lockstep::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kElements = 10'000;  // Of gradients that are large enough.

// Passes in which tensors are made and some of them are gradients of three parameters: 0 and 1 are
// of one size, 2 is too small.
class BirthplacesTest : public ::testing::Test {
 protected:
  void begin() { Birthplaces::begin(births_); }
  ~BirthplacesTest() override { births_->end(); }

  at::Tensor born(std::size_t parameter, std::int64_t elements = kElements) {
    auto gradient = at::empty({elements});
    births_->born(parameter, gradient);
    return gradient;
  }
  [[nodiscard]] bool in_place(const at::Tensor& tensor, std::size_t parameter) const {
    return tensor.const_data_ptr() == memory_[parameter].const_data_ptr();
  }

  at::NoGradGuard no_grad_;
  std::vector<at::Tensor> memory_{at::empty({kElements}), at::empty({kElements}), at::empty({10})};
  std::vector<std::size_t> asked_;
  std::shared_ptr<Birthplaces> births_ = std::make_shared<Birthplaces>(
      std::vector<std::size_t>{kElements * 4, kElements * 4, 40}, [this](std::size_t parameter) {
        asked_.push_back(parameter);
        return Lender::Loan{memory_[parameter].mutable_data_ptr(), memory_[parameter].storage()};
      });
};

TEST_F(BirthplacesTest, FollowWhatTheLastPassDid) {
  for (int pass = 0; pass < 3; ++pass) {
    begin();
    const auto temporary = at::empty({kElements});
    EXPECT_EQ(in_place(born(1), 1), pass > 0);
    EXPECT_FALSE(in_place(born(2, 10), 2));
    EXPECT_EQ(in_place(born(0), 0), pass > 0);
    EXPECT_FALSE(in_place(temporary, 1));
    const auto later = at::empty({kElements});
    births_->end();
  }
  EXPECT_THAT(asked_, ElementsAre(1, 0, 1, 0));
  at::empty({kElements});
  EXPECT_EQ(asked_.size(), 4);
}

// The memory of a temporary that is gone may be that of the gradient.
TEST_F(BirthplacesTest, CountTheLastTensorAtAnAddress) {
  for (int pass = 0; pass < 3; ++pass) {
    begin();
    at::empty({kElements});
    EXPECT_EQ(in_place(born(0), 0), pass > 0);
    births_->end();
  }
}

TEST_F(BirthplacesTest, LearnAnotherOrder) {
  begin();
  born(0);
  born(1);
  births_->end();
  begin();
  EXPECT_TRUE(in_place(born(1), 0));  // A wrong guess.
  born(0);
  births_->end();
  begin();
  EXPECT_TRUE(in_place(born(1), 1));
  EXPECT_TRUE(in_place(born(0), 0));
}

TEST_F(BirthplacesTest, AParameterMayBeLeftOut) {
  begin();
  born(0);
  born(1);
  births_->end();
  begin();
  births_->born(0, at::Tensor());
  EXPECT_TRUE(in_place(born(1), 1));
}

TEST_F(BirthplacesTest, GradientsThatWereAddedToOthersTeachNothing) {
  begin();
  born(0);
  births_->end();
  begin();
  births_->born(0, at::empty({3}));
  births_->end();
  begin();
  EXPECT_TRUE(in_place(born(0), 0));
}

TEST_F(BirthplacesTest, CanBeAvoided) {
  begin();
  born(0);
  births_->end();
  births_->avoid(0);
  begin();
  EXPECT_FALSE(in_place(born(0), 0));
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(BirthplacesTest, NothingIsLentToGradientsOfAGraph) {
  begin();
  born(0);
  births_->end();
  const at::AutoGradMode create_graph(true);
  begin();
  EXPECT_FALSE(in_place(born(0), 0));
}

}  // namespace
}  // namespace lockstep::parallel
