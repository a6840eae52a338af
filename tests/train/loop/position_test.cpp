#include "lockstep/train/loop/position.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

TEST(Position, ComesBackFromItsValue) {
  const Position position{3, 17, 317, 91.25, 2, 1, 0.05};
  EXPECT_EQ(position_from(to_value(position)), position);
}

TEST(Position, OfAnotherProgramsCheckpointSaysWhatToDo) {
  EXPECT_THAT([] { position_from(checkpoint::Dict{{"epoch", 1}}); },
              testing::ThrowsMessage<IoError>(testing::HasSubstr("--init-weights")));
}

}  // namespace
}  // namespace lockstep::train
