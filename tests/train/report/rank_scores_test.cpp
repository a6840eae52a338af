#include "lockstep/train/report/rank_scores.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"

namespace lockstep::train {
namespace {

const RankScores kOne{{0.1, 1, 2, 3, 3}, {0.2, 4, 5, 6, 6}};
const RankScores kTwo{{1.0, 10, 20, 30, 30}, {2.0, 40, 50, 60, 60}};

TEST(RankScores, ComeBackFromTheirValue) {
  EXPECT_THAT(rank_scores_from(to_value(std::vector{kOne, kTwo})),
              ::testing::ElementsAre(kOne, kTwo));
}

TEST(RankScores, AsManyRanksHaveTheirOwn) { EXPECT_EQ(share_of({kOne, kTwo}, 1, 2), kTwo); }

TEST(RankScores, OfOtherNumbersOfRanksTheFirstHasAll) {
  EXPECT_EQ(share_of({kOne, kTwo}, 0, 3),
            (RankScores{{1.1, 11, 22, 33, 33}, {2.2, 44, 55, 66, 66}}));
  EXPECT_EQ(share_of({kOne, kTwo}, 1, 3), RankScores{});
}

TEST(RankScores, OfOneRankAreGathered) {
  EXPECT_THAT(gather(init_process_group(), kOne), ::testing::ElementsAre(kOne));
}

TEST(RankScores, DamagedOnesAreAnError) {
  EXPECT_THROW(rank_scores_from(checkpoint::Value()), IoError);
  EXPECT_THROW(rank_scores_from(checkpoint::List{checkpoint::Dict{}}), IoError);
}

}  // namespace
}  // namespace lockstep::train
