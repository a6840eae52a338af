#include "lockstep/train/session/starting_weights.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/train/toy_run.h"

namespace lockstep::train {
namespace {

TEST(StartingWeights, AreThoseOfInitWeightsIfItIsGiven) {
  const toys::Folder folder;
  toys::Run saved({.batch_size = 8});
  saved.set_weights(0.5);
  saved.save_weights(folder.path);

  toys::Run plain({.batch_size = 8});
  load_initial_weights(plain.parts());
  EXPECT_FALSE(plain.all_weights_are(0.5));
  EXPECT_THAT(plain.said, ::testing::IsEmpty());

  toys::Run run({.batch_size = 8, .init_weights = folder.path + "/last.pt"});
  load_initial_weights(run.parts());
  EXPECT_TRUE(run.all_weights_are(0.5));
  EXPECT_THAT(run.said, ::testing::ElementsAre("weights from '" + folder.path + "/last.pt'"));

  run.config.init_weights = folder.path + "/lats.pt";
  EXPECT_THAT([&] { load_initial_weights(run.parts()); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("last.pt")));
}

TEST(StartingWeights, EvalOnlyTakesThoseOfTheRunOrSaysThatThereAreNone) {
  const toys::Folder folder;
  toys::Run run({.batch_size = 8, .output = folder.path});
  EXPECT_THAT(
      [&] { load_to_evaluate(run.parts()); },
      ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("--eval-only has no weights")));
  run.set_weights(0.25);
  run.save_weights(folder.path + "/toy-net/checkpoints");
  run.set_weights(0);
  load_to_evaluate(run.parts());
  EXPECT_TRUE(run.all_weights_are(0.25));
  EXPECT_THAT(run.said,
              ::testing::ElementsAre(::testing::StartsWith("weights from '" + folder.path)));
}

}  // namespace
}  // namespace lockstep::train
