#include "lockstep/train/session/choose_network.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

TEST(ModelFor, FitsTheDataUnlessOneIsNamed) {
  EXPECT_EQ(model_for({}, {.input = {8}}), "mlp");
  EXPECT_EQ(model_for({}, {.input = {1, 28, 28}}), "convnet");
  EXPECT_EQ(model_for({}, {.input = {3, 28, 28}}), "resnet18");
  EXPECT_EQ(model_for({.model = "vgg11"}, {.input = {8}}), "vgg11");
}

TEST(MakeNetwork, OnesOwnComeBeforeThoseOfLockstep) {
  const Networks networks{{"mlp", [] { return toys::network(); }}};
  EXPECT_EQ(network_names(networks).front(), "mlp");
  EXPECT_EQ(make_network("mlp", toys::table(), networks)->parameters().size(), 2U);
  EXPECT_GT(make_network("mlp", toys::table(), {})->parameters().size(), 2U);
}

TEST(MakeNetwork, NamesTheNearest) {
  EXPECT_THAT([] { make_network("mpl", toys::table(), {}); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("HINT: --model mlp")));
}

}  // namespace
}  // namespace lockstep::train
