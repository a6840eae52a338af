#include "lockstep/parallel/checks/same_model.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep::parallel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using ::testing::ThrowsMessage;

Parameter parameter(const std::string& name, at::IntArrayRef sizes,
                    at::ScalarType type = at::kFloat) {
  return {.name = name, .tensor = at::ones(sizes, type)};
}

TEST(SameModel, IsAccepted) {
  for (const char* backend : {"gloo", "shm"}) {
    run_ranks(
        2,
        [](Group& world) {
          const std::vector<Parameter> model{parameter("a", {2, 3}), parameter("b", {})};
          for (int i = 0; i < 2; ++i) {
            require_same_model(world, model, {}, world.next_name("model"));
          }
        },
        backend);
  }
}

TEST(SameModel, DifferencesAreShownOnEveryRankWithBothSides) {
  for (const char* backend : {"gloo", "shm"}) {
    run_ranks(
        3,
        [](Group& world) {
          const bool odd = world.rank() == 2;
          const auto shown = [&](const std::vector<Parameter>& theirs,
                                 const std::vector<Parameter>& ours, const char* first,
                                 const char* second) {
            EXPECT_THAT(
                [&] {
                  require_same_model(world, odd ? ours : theirs, {}, world.next_name("model"));
                },
                ThrowsMessage<UsageError>(
                    AllOf(HasSubstr("on rank " + std::to_string(world.rank()) + " of 3"),
                          HasSubstr(std::string("'parameter ") + first + "' on rank 0"),
                          HasSubstr(second), HasSubstr("on rank 2"))));
          };
          shown({parameter("a", {2}), parameter("b", {2, 3})},
                {parameter("a", {2}), parameter("b", {3, 2})}, "b Float [2, 3]",
                "'parameter b Float [3, 2]'");
          shown({parameter("a", {2})}, {parameter("a", {2}, at::kDouble)}, "a Float [2]",
                "'parameter a Double [2]'");
          shown({parameter("a", {2}), parameter("b", {2})},
                {parameter("b", {2}), parameter("a", {2})}, "a Float [2]",
                "'parameter b Float [2]'");
          shown({parameter("a", {2}), parameter("b", {2})}, {parameter("a", {2})}, "b Float [2]",
                "no more");
        },
        backend);
  }
}

TEST(SameModel, BuffersAreComparedAsWell) {
  run_ranks(2, [](Group& world) {
    const NamedTensors buffers{
        {"mask", at::ones(world.rank() == 0 ? at::IntArrayRef{3, 2} : at::IntArrayRef{2, 3})}};
    EXPECT_THAT(
        [&] {
          require_same_model(world, {parameter("a", {2})}, buffers, world.next_name("model"));
        },
        ThrowsMessage<UsageError>(AllOf(HasSubstr("'buffer mask Float [3, 2]' on rank 0"),
                                        HasSubstr("'buffer mask Float [2, 3]' on rank 1"))));
  });
}

TEST(SameModel, StridesAreComparedAsWell) {
  run_ranks(2, [](Group& world) {
    auto conv = parameter("conv", {2, 3, 2, 2});
    if (world.rank() == 1) {
      conv.tensor = conv.tensor.to(at::MemoryFormat::ChannelsLast);
    }
    EXPECT_THAT([&] { require_same_model(world, {conv}, {}, world.next_name("model")); },
                ThrowsMessage<UsageError>(HasSubstr("strides [12, 1, 6, 3]")));
  });
}

TEST(Difference, IsEmptyForEqualModels) {
  const auto text = description_of({parameter("a", {2})}, {{"mean", at::ones({3})}});
  EXPECT_EQ(text, "parameter a Float [2]\nbuffer mean Float [3]\n");
  EXPECT_EQ(difference(text, text, 0, 1), "");
}

}  // namespace
}  // namespace lockstep::parallel
