#include "lockstep/checkpoint/describe.h"

#include <gmock/gmock.h>

#include "tests/checkpoint/values.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string described(Value root) {
  return describe({std::move(root), Format::kLockstep, 1234}, {.items = 2});
}

TEST(Describe, HasALineForEachValue) {
  EXPECT_EQ(described(small_checkpoint()),
            "lockstep checkpoint (torch.load reads it), 1.2 kB; 3 entries; 2 tensors, 4 elements, "
            "0.0 kB\n"
            "model: 2 entries; 2 tensors, 4 elements, 0.0 kB\n"
            "  weight: float32 [3]\n"
            "  bias: float32 [1]\n"
            "epoch: 3\n"
            "args: 1 entry\n"
            "  lr: 0.1\n");
}

TEST(Describe, LongListsAreCut) {
  EXPECT_THAT(described(Dict{{"names", List{"a", "b", "c"}}}),
              HasSubstr("names: ['a', 'b', ... 3 in all]\n"));
  EXPECT_THAT(described(Dict{{"groups", List{Dict{}, Dict{}, Dict{}}}}), HasSubstr("... 1 more"));
}

TEST(Describe, OfAListNoItemNeedsToBeShown) {
  const Document document{Dict{{"names", List{"a", "b", "c"}}, {"none", List{}}}};
  EXPECT_THAT(describe(document, {.items = 0}), HasSubstr("names: [... 3 in all]\nnone: []\n"));
}

TEST(Describe, AKeyIsShownWhateverItIs) {
  const Dict keys{{Tuple{{"a", 1, Tuple{{2.5}}}}, 7}, {Value(), 8}};
  EXPECT_THAT(described(keys), HasSubstr("\n('a', 1, (2.5)): 7\nNone: 8\n"));
  EXPECT_THAT(described(Dict{{"inner", keys}}), HasSubstr("\n  ('a', 1, (2.5)): 7\n"));
}

TEST(Describe, ATerminalIsNotGivenOrders) {
  const auto text = described(Dict{{"key\x1b[2J", "\x1b]0;title\x07\n"}});
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("key?[2J: '?]0;title?"));
}

TEST(Describe, ElementsThatNoNumberCountsAreNoError) {
  Tensor expanded = tensor_of({1});
  expanded.sizes = {std::int64_t{1} << 62};
  expanded.strides = {0};
  EXPECT_THAT(described(Dict{{"a", List{expanded, expanded, expanded}}}),
              HasSubstr("3 tensors, 9223372036854775807 elements"));
}

TEST(Describe, ShowsEveryKindThatTorchWrites) {
  const std::string file = seed("pt/kinds.pt");
  const auto text = describe(read_document("f", as_bytes(file)));
  for (const char* line :
       {"none: None", "flags: [True, False]", "float: 0.1", "bytes: 3 bytes",
        "device: torch.device cpu", "view: int64 [3, 2]", "scalar: float32 []", "7: 1 entry"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
