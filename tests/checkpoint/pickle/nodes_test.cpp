#include "lockstep/checkpoint/pickle/nodes.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::ThrowsMessage;

const Cursor kNowhere("'f'", {});

TEST(Nodes, ATreeHasWhatTheNodesHave) {
  Nodes nodes;
  const NodeId key = nodes.add(Value("key"));
  const NodeId list = nodes.add(NodeKind::kList, {nodes.add(Value(1)), nodes.add(Value(2))});
  const Value tree = nodes.tree(nodes.add(NodeKind::kDict, {key, list}), kNowhere, 100'000);
  EXPECT_EQ(tree.find("key")->get_if<List>()->size(), 2U);
}

TEST(Nodes, AListThatContainsItselfIsRefused) {
  Nodes nodes;
  const NodeId list = nodes.add(NodeKind::kList);
  nodes[list].items.push_back(list);
  EXPECT_THAT([&] { (void)nodes.tree(list, kNowhere, 100'000); },
              ThrowsMessage<IoError>(HasSubstr("nested deeper than 100")));
}

TEST(Nodes, ListsOfListsThatWouldFillMemoryAreRefused) {
  Nodes nodes;
  NodeId list = nodes.add(NodeKind::kList);
  for (int i = 0; i < 30; ++i) {
    list = nodes.add(NodeKind::kList, {list, list});  // 2^30 lists, when written out.
  }
  EXPECT_THAT([&] { (void)nodes.tree(list, kNowhere, 100'000); },
              ThrowsMessage<IoError>(HasSubstr("would not fit in memory")));
}

TEST(Nodes, CountTheMemoryOfWhatTheyHold) {
  Nodes nodes;
  const auto added = [&](const auto& add) {
    const auto before = nodes.bytes();
    add();
    return nodes.bytes() - before;
  };
  EXPECT_GE(added([&] { nodes.add(Value(1)); }), sizeof(Node));
  EXPECT_GE(added([&] { nodes.add(Value(std::string(1000, 'x'))); }), sizeof(Node) + 1000);
  EXPECT_GE(added([&] { nodes.add(Value(Bytes{std::string(1000, 'x')})); }), sizeof(Node) + 1000);
  EXPECT_GE(added([&] { nodes.add(NodeKind::kList, std::vector<NodeId>(100)); }),
            sizeof(Node) + 100 * sizeof(NodeId));
}

TEST(Nodes, ATreeNeedsTheMemoryOfItsValues) {
  Nodes nodes;
  const NodeId list = nodes.add(NodeKind::kList, std::vector<NodeId>(100, nodes.add(Value(1))));
  EXPECT_NO_THROW((void)nodes.tree(list, kNowhere, 101 * sizeof(Value)));
  EXPECT_THROW((void)nodes.tree(list, kNowhere, 101 * sizeof(Value) - 1), IoError);
}

TEST(Nodes, AKeyTwiceIsRefused) {
  Nodes nodes;
  const NodeId one = nodes.add(Value(1));
  const NodeId dict = nodes.add(NodeKind::kDict, {one, one, nodes.add(Value(1)), one});
  EXPECT_THAT([&] { (void)nodes.tree(dict, kNowhere, 100'000); },
              ThrowsMessage<IoError>(HasSubstr("the key 1 twice")));
  const NodeId text = nodes.add(Value("a"));
  const NodeId other = nodes.add(NodeKind::kDict, {text, one, text, one});
  EXPECT_THAT([&] { (void)nodes.tree(other, kNowhere, 100'000); },
              ThrowsMessage<IoError>(HasSubstr("the key 'a' twice")));
}

TEST(Nodes, NumbersAreThoseOfATupleOfIntegers) {
  Nodes nodes;
  const NodeId one = nodes.add(Value(1));
  EXPECT_THAT(nodes.numbers(nodes.add(NodeKind::kTuple, {one, one})), Optional(ElementsAre(1, 1)));
  EXPECT_FALSE(nodes.numbers(nodes.add(NodeKind::kList, {one})));
  EXPECT_FALSE(nodes.numbers(nodes.add(NodeKind::kTuple, {nodes.add(Value(1.0))})));
}

}  // namespace
}  // namespace lockstep::checkpoint
