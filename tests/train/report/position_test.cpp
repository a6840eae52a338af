#include "lockstep/train/report/position.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

TEST(Position, ComesBackFromItsValue) {
  const Position position{3, 17, 317, 91.25, 2, 1, 0.05};
  EXPECT_EQ(position_from(to_value(position)), position);
}

TEST(Position, OfAnOlderProgramTakesTheLrThatIsGiven) {
  const Position position{3, 17, 317, 91.25, 2, 1, 0.05};
  const auto value = to_value(position);
  EXPECT_EQ(position_from(value, 0.5).lr, 0.05);
  const auto older = toys::without(value, "lr");
  EXPECT_EQ(position_from(older, 0.5), (Position{3, 17, 317, 91.25, 2, 1, 0.5}));
}

TEST(Position, OfAnotherProgramsCheckpointSaysWhatToDo) {
  EXPECT_THAT([] { position_from(checkpoint::Dict{{"epoch", 1}}); },
              ::testing::ThrowsMessage<IoError>(::testing::HasSubstr("--init-weights")));
}

}  // namespace
}  // namespace lockstep::train
