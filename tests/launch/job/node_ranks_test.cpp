#include "lockstep/launch/job/node_ranks.h"

#include <gmock/gmock.h>

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Join join(const std::string& host, int rank = -1, int nodes = 3, int pid = 1) {
  return {"job", nodes, rank, {host, 1, "default"}, pid};
}

TEST(NaturalLess, ComparesNumbersAsNumbers) {
  EXPECT_TRUE(natural_less("node2", "node10"));
  EXPECT_FALSE(natural_less("node10", "node2"));
  EXPECT_TRUE(natural_less("a9b2", "a9b10"));
  EXPECT_TRUE(natural_less("10.0.0.9", "10.0.0.10"));
  EXPECT_TRUE(natural_less("a", "b"));
  EXPECT_TRUE(natural_less("a", "a1"));
  EXPECT_FALSE(natural_less("a", "a"));
  EXPECT_NE(natural_less("a01", "a1"), natural_less("a1", "a01")) << "an order, not a tie";
}

TEST(NodeRanks, LeaderFirstThenByHost) {
  EXPECT_THAT(assign_node_ranks({join("z"), join("n10"), join("n2")}), ElementsAre(0, 2, 1));
}

TEST(NodeRanks, PinnedRanksAreKept) {
  EXPECT_THAT(assign_node_ranks({join("z"), join("b", 0), join("a")}), ElementsAre(1, 0, 2));
  EXPECT_THAT(assign_node_ranks({join("z", 2), join("b", 1), join("a", 0)}), ElementsAre(2, 1, 0));
}

TEST(NodeRanks, SameHostIsOrderedByPid) {
  EXPECT_THAT(assign_node_ranks({join("h", -1, 3, 9), join("h", -1, 3, 8), join("h", -1, 3, 7)}),
              ElementsAre(0, 2, 1));
}

TEST(Objection, NoneToAFittingNode) {
  EXPECT_FALSE(object_to(join("b", 1), {join("a", 0)}).has_value());
  EXPECT_FALSE(object_to(join("b"), {join("a"), join("c")}).has_value());
}

TEST(Objection, NamesTheNodeAndTheDifference) {
  const std::vector<Join> members{join("a", 0)};
  EXPECT_THAT(object_to(join("b", 1, 2), members)->reason,
              AllOf(HasSubstr("node 1 'b'"), HasSubstr("--nnodes 2"), HasSubstr("--nnodes 3")));
  EXPECT_THAT(
      object_to(join("b", 0), members)->reason,
      AllOf(HasSubstr("--node-rank 0 was given twice"), HasSubstr("'a'"), HasSubstr("'b'")));
  EXPECT_THAT(object_to(join("b", 3), members)->reason, HasSubstr("node 3 'b'"));
  Join other = join("b", 1);
  other.run_id = "other";
  EXPECT_THAT(object_to(other, members)->reason,
              HasSubstr("node 1 'b' came with --rdzv-id 'other', expected 'job'"));
}

TEST(Objection, OthersNodesDoNotEndTheJob) {
  Join other = join("b", 1);
  other.run_id = "other";
  EXPECT_TRUE(object_to(other, {join("a", 0)})->foreign);
  EXPECT_FALSE(object_to(join("b", 0), {join("a", 0)})->foreign);
  EXPECT_TRUE(object_to(join("d"), {join("a"), join("b"), join("c")})->foreign);
}

TEST(DescribeMissing, CountsNodesWithoutRanksAndNamesTheOthers) {
  const auto join = [](int rank) { return Join{"id", 3, rank, {"h", 1, ""}, 1}; };
  EXPECT_EQ(describe_missing({join(0)}), "nodes 1, 2 of 3");
  EXPECT_EQ(describe_missing({join(0), join(2)}), "node 1 of 3");
  EXPECT_EQ(describe_missing({join(0), join(-1)}),
            "1 of 3 nodes (present: node 0 'h', a node without --node-rank on 'h')");
  EXPECT_EQ(describe_missing({join(0), join(1), join(2)}), "");
}

}  // namespace
}  // namespace lockstep::launch
