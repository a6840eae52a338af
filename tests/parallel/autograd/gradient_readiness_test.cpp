#include "lockstep/parallel/autograd/gradient_readiness.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"

namespace lockstep::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNull;
using ::testing::Pointee;
using ::testing::ThrowsMessage;

// Three parameters of a process that is alone; hooks are called by hand.
class GradientReadinessTest : public ::testing::Test {
 protected:
  GradientReadinessTest() {
    for (int i = 0; i < 3; ++i) {
      parameters_.push_back({.name = std::to_string(i), .tensor = at::ones({1}).requires_grad_()});
    }
    hooks_ = std::make_unique<GradientHooks>(parameters_, [](std::size_t, const at::Tensor&) {});
  }
  std::unique_ptr<GradientReadiness> make(ReadinessKind kind) {
    return GradientReadiness::make(kind, world_, parameters_, *hooks_);
  }
  static std::vector<std::size_t> hook(GradientReadiness& readiness, std::size_t parameter) {
    std::vector<std::size_t> ready;
    readiness.passed(parameter, true);
    readiness.hooked(parameter, [&](std::size_t i) { ready.push_back(i); });
    return ready;
  }
  static std::vector<std::size_t> end(GradientReadiness& readiness) {
    std::vector<std::size_t> ready;
    readiness.end([&](std::size_t i) { ready.push_back(i); });
    return ready;
  }

  Group world_ = init_process_group();
  std::vector<Parameter> parameters_;
  std::unique_ptr<GradientHooks> hooks_;
};

TEST_F(GradientReadinessTest, OfAllIsReadyHookByHook) {
  const auto readiness = make(ReadinessKind::kAll);
  readiness->begin({});
  EXPECT_THAT(hook(*readiness, 2), ElementsAre(2));
  EXPECT_THAT(hook(*readiness, 0), ElementsAre(0));
  EXPECT_THAT(readiness->order(), IsNull());
  EXPECT_THAT(hook(*readiness, 1), ElementsAre(1));
  EXPECT_THAT(end(*readiness), IsEmpty());
  EXPECT_THAT(readiness->order(), Pointee(ElementsAre(2, 0, 1)));
  EXPECT_TRUE(readiness->took_part(0));
}

TEST_F(GradientReadinessTest, OfAllForgetsTheOrderOfAStepThatWasNotWhole) {
  const auto readiness = make(ReadinessKind::kAll);
  readiness->begin({});
  hook(*readiness, 2);
  readiness->begin({});
  for (const std::size_t i : {0, 1, 2}) {
    hook(*readiness, i);
  }
  EXPECT_THAT(readiness->order(), Pointee(ElementsAre(0, 1, 2)));
}

TEST_F(GradientReadinessTest, ThatIsFoundIsReadyAtTheFirstHook) {
  const auto readiness = make(ReadinessKind::kFindUnused);
  readiness->begin({parameters_[1].tensor * 2});
  EXPECT_THAT(hook(*readiness, 1), ElementsAre(0, 2, 1));
  readiness->all_started();
  EXPECT_TRUE(readiness->took_part(1));
  EXPECT_FALSE(readiness->took_part(0));
  readiness->finish();
  EXPECT_THAT(readiness->order(), IsNull());
}

TEST_F(GradientReadinessTest, ThatIsFoundNeedsAGradient) {
  const auto readiness = make(ReadinessKind::kFindUnused);
  readiness->begin({parameters_[0].tensor * parameters_[1].tensor * parameters_[2].tensor});
  readiness->passed(0, /*has_gradient=*/false);
  readiness->passed(1, true);
  readiness->passed(2, true);
  readiness->all_started();
  EXPECT_FALSE(readiness->took_part(0));
  readiness->finish();
}

TEST_F(GradientReadinessTest, OfAStaticGraphIsLearnedInTheFirstStep) {
  const auto readiness = make(ReadinessKind::kStaticGraph);
  EXPECT_TRUE(readiness->needs_sink());
  readiness->begin({});
  for (const std::size_t i : {2, 0, 2}) {
    EXPECT_THAT(hook(*readiness, i), IsEmpty());
  }
  EXPECT_THAT(end(*readiness), ElementsAre(0, 1, 2));
  EXPECT_TRUE(readiness->took_part(2));
  EXPECT_FALSE(readiness->took_part(1));
  readiness->finish();
  EXPECT_THAT(readiness->order(), IsNull());

  readiness->begin({});
  EXPECT_FALSE(readiness->needs_sink());
  EXPECT_THAT(hook(*readiness, 2), ElementsAre(1));  // Comes once more; 1 never does.
  EXPECT_THAT(hook(*readiness, 0), ElementsAre(0));
  EXPECT_THAT(hook(*readiness, 2), ElementsAre(2));
  EXPECT_THAT(end(*readiness), IsEmpty());
  EXPECT_THAT(readiness->order(), Pointee(ElementsAre(0, 2, 1)));
  EXPECT_FALSE(readiness->took_part(1));
}

TEST_F(GradientReadinessTest, OfAStaticGraphThatChangesIsAnError) {
  const auto readiness = make(ReadinessKind::kStaticGraph);
  readiness->begin({});
  hook(*readiness, 0);
  end(*readiness);
  readiness->finish();
  readiness->begin({});
  EXPECT_THAT([&] { hook(*readiness, 1); }, ThrowsMessage<UsageError>(HasSubstr("'1'")));
}

}  // namespace
}  // namespace lockstep::parallel
