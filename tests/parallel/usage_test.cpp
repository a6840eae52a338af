#include "lockstep/parallel/usage.h"

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
class UsageTest : public ::testing::Test {
 protected:
  UsageTest() {
    for (int i = 0; i < 3; ++i) {
      parameters_.push_back({.name = std::to_string(i), .tensor = at::ones({1}).requires_grad_()});
    }
    hooks_ = std::make_unique<GradientHooks>(parameters_, [](std::size_t, const at::Tensor&) {});
  }
  std::unique_ptr<Usage> make(UsageKind kind) {
    return Usage::make(kind, world_, parameters_, *hooks_);
  }
  static std::vector<std::size_t> hook(Usage& usage, std::size_t parameter) {
    std::vector<std::size_t> ready;
    usage.passed(parameter, true);
    usage.hooked(parameter, [&](std::size_t i) { ready.push_back(i); });
    return ready;
  }
  static std::vector<std::size_t> end(Usage& usage) {
    std::vector<std::size_t> ready;
    usage.end([&](std::size_t i) { ready.push_back(i); });
    return ready;
  }

  Group world_ = init_process_group();
  std::vector<Parameter> parameters_;
  std::unique_ptr<GradientHooks> hooks_;
};

TEST_F(UsageTest, OfAllIsReadyHookByHook) {
  const auto usage = make(UsageKind::kAll);
  usage->begin({});
  EXPECT_THAT(hook(*usage, 2), ElementsAre(2));
  EXPECT_THAT(hook(*usage, 0), ElementsAre(0));
  EXPECT_THAT(usage->order(), IsNull());
  EXPECT_THAT(hook(*usage, 1), ElementsAre(1));
  EXPECT_THAT(end(*usage), IsEmpty());
  EXPECT_THAT(usage->order(), Pointee(ElementsAre(2, 0, 1)));
  EXPECT_TRUE(usage->took_part(0));
}

TEST_F(UsageTest, OfAllForgetsTheOrderOfAStepThatWasNotWhole) {
  const auto usage = make(UsageKind::kAll);
  usage->begin({});
  hook(*usage, 2);
  usage->begin({});
  for (const std::size_t i : {0, 1, 2}) {
    hook(*usage, i);
  }
  EXPECT_THAT(usage->order(), Pointee(ElementsAre(0, 1, 2)));
}

TEST_F(UsageTest, ThatIsFoundIsReadyAtTheFirstHook) {
  const auto usage = make(UsageKind::kFindUnused);
  usage->begin({parameters_[1].tensor * 2});
  EXPECT_THAT(hook(*usage, 1), ElementsAre(0, 2, 1));
  usage->all_started();
  EXPECT_TRUE(usage->took_part(1));
  EXPECT_FALSE(usage->took_part(0));
  usage->finish();
  EXPECT_THAT(usage->order(), IsNull());
}

TEST_F(UsageTest, ThatIsFoundNeedsAGradient) {
  const auto usage = make(UsageKind::kFindUnused);
  usage->begin({parameters_[0].tensor * parameters_[1].tensor * parameters_[2].tensor});
  usage->passed(0, /*has_gradient=*/false);
  usage->passed(1, true);
  usage->passed(2, true);
  usage->all_started();
  EXPECT_FALSE(usage->took_part(0));
  usage->finish();
}

TEST_F(UsageTest, OfAStaticGraphIsLearnedInTheFirstStep) {
  const auto usage = make(UsageKind::kStaticGraph);
  EXPECT_TRUE(usage->needs_sink());
  usage->begin({});
  for (const std::size_t i : {2, 0, 2}) {
    EXPECT_THAT(hook(*usage, i), IsEmpty());
  }
  EXPECT_THAT(end(*usage), ElementsAre(0, 1, 2));
  EXPECT_TRUE(usage->took_part(2));
  EXPECT_FALSE(usage->took_part(1));
  usage->finish();
  EXPECT_THAT(usage->order(), IsNull());

  usage->begin({});
  EXPECT_FALSE(usage->needs_sink());
  EXPECT_THAT(hook(*usage, 2), ElementsAre(1));  // Comes once more; 1 never does.
  EXPECT_THAT(hook(*usage, 0), ElementsAre(0));
  EXPECT_THAT(hook(*usage, 2), ElementsAre(2));
  EXPECT_THAT(end(*usage), IsEmpty());
  EXPECT_THAT(usage->order(), Pointee(ElementsAre(0, 2, 1)));
  EXPECT_FALSE(usage->took_part(1));
}

TEST_F(UsageTest, OfAStaticGraphThatChangesIsAnError) {
  const auto usage = make(UsageKind::kStaticGraph);
  usage->begin({});
  hook(*usage, 0);
  end(*usage);
  usage->finish();
  usage->begin({});
  EXPECT_THAT([&] { hook(*usage, 1); }, ThrowsMessage<UsageError>(HasSubstr("'1'")));
}

}  // namespace
}  // namespace lockstep::parallel
