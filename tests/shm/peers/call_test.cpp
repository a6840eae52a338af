#include "lockstep/shm/peers/call.h"

#include <gmock/gmock.h>

#include <limits>
#include <random>

namespace lockstep::shm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Call kCall{.kind = Kind::kReduce,
                     .dtype = DType::kBFloat16,
                     .op = ReduceOp::kPremulSum,
                     .root = 1023,
                     .count = std::numeric_limits<std::uint64_t>::max() - 1,
                     .place = 0x123456789abcdefULL,
                     .factor = -0.1};

Call there_and_back(const Call& call) {
  Announcement announcement{};
  call.write_to(announcement, 7);
  return Call::read_from(announcement);
}

TEST(ShmCall, ComesBackFromAnAnnouncementAsItWas) {
  const auto back = there_and_back(kCall);
  EXPECT_EQ(back.kind, kCall.kind);
  EXPECT_EQ(back.dtype, kCall.dtype);
  EXPECT_EQ(back.op, kCall.op);
  EXPECT_EQ(back.root, kCall.root);
  EXPECT_EQ(back.count, kCall.count);
  EXPECT_EQ(back.place, kCall.place);
  EXPECT_EQ(back.factor, kCall.factor);
}

TEST(ShmCall, NoRootComesBackAsNoRoot) { EXPECT_EQ(there_and_back({.root = -1}).root, -1); }

TEST(ShmCall, WritesItsNumber) {
  Announcement announcement{};
  kCall.write_to(announcement, 42);
  EXPECT_EQ(announcement.sequence.load(), 42U);
}

TEST(ShmCall, MatchesItself) { EXPECT_TRUE(there_and_back(kCall).matches(kCall)); }

TEST(ShmCall, MatchesWhereverTheTensorLiesAndWhateverTheFactor) {
  auto other = kCall;
  other.place = 0;
  other.factor = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(other.matches(kCall));
}

TEST(ShmCall, MatchesNoCallThatDiffersInOneThing) {
  auto other = kCall;
  other.kind = Kind::kAllReduce;
  EXPECT_FALSE(other.matches(kCall)) << "kind";
  other = kCall;
  other.dtype = DType::kHalf;
  EXPECT_FALSE(other.matches(kCall)) << "dtype";
  other = kCall;
  other.op = ReduceOp::kSum;
  EXPECT_FALSE(other.matches(kCall)) << "op";
  other = kCall;
  other.root = -1;
  EXPECT_FALSE(other.matches(kCall)) << "root";
  other = kCall;
  other.count -= 1;
  EXPECT_FALSE(other.matches(kCall)) << "count";
}

TEST(ShmCall, TextShowsWhatWasCalled) {
  EXPECT_EQ((Call{.kind = Kind::kAllReduce, .dtype = DType::kFloat, .count = 256}).text(),
            "all_reduce(sum, float32, 256 elements: 1024 bytes)");
  EXPECT_EQ((Call{.kind = Kind::kBroadcast, .dtype = DType::kInt8, .root = 3, .count = 1}).text(12),
            "broadcast #12 (int8, 1 element: 1 bytes, root 3)");
  EXPECT_EQ((Call{.kind = Kind::kAllGather, .dtype = DType::kOther}).text(), "all_gather(bytes)");
  EXPECT_EQ(Call{}.text(), "barrier");
}

TEST(ShmCall, EveryKindHasAName) {
  for (int kind = 0; kind <= static_cast<int>(Kind::kAllToAll); ++kind) {
    EXPECT_THAT(name_of(static_cast<Kind>(kind)), Not(HasSubstr("unknown"))) << kind;
  }
}

// Any word may stand where a peer should have written a call.
class ShmCallOfGarbage : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  static Call call() {
    Announcement announcement{};
    announcement.kind.store(GetParam());
    announcement.count.store(GetParam());
    announcement.factor.store(GetParam());
    return Call::read_from(announcement);
  }
};
INSTANTIATE_TEST_SUITE_P(Words, ShmCallOfGarbage,
                         ::testing::Values(0x09, 0xff, 0x1001, 0xff01, 0x090001, 0xff0001,
                                           0x80000000ffffffffULL, 0xffffffffffffffffULL));

TEST_P(ShmCallOfGarbage, PrintsAsUnknown) { EXPECT_THAT(call().text(3), HasSubstr("unknown")); }

TEST_P(ShmCallOfGarbage, MatchesNoValidCall) {
  for (int kind = 0; kind <= static_cast<int>(Kind::kAllToAll); ++kind) {
    for (int dtype = 0; dtype <= static_cast<int>(DType::kOther); ++dtype) {
      for (int op = 0; op <= static_cast<int>(ReduceOp::kPremulSum); ++op) {
        auto valid = call();  // The same count and root.
        valid.kind = static_cast<Kind>(kind);
        valid.dtype = static_cast<DType>(dtype);
        valid.op = static_cast<ReduceOp>(op);
        ASSERT_FALSE(call().matches(valid)) << valid.text();
        ASSERT_FALSE(valid.matches(call())) << valid.text();
      }
    }
  }
}

TEST(ShmCallOfGarbage, AnyWordsCanBePrinted) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    Announcement announcement{};
    announcement.kind.store(random());
    announcement.count.store(random());
    ASSERT_FALSE(Call::read_from(announcement).text(random()).empty());
  }
}

TEST(Call, AStepOfAnotherCollectiveIsCalledByTheNameAndNumberOfThatOne) {
  Announcement announcement;
  const Call step{.kind = Kind::kReduceScatter,
                  .dtype = DType::kFloat,
                  .name = {.number = 5, .kind = Kind::kAllReduce}};
  step.write_to(announcement, 17);
  const Call read = Call::read_from(announcement);
  EXPECT_EQ(read.text(17), "all_reduce #5 (sum, float32)");
  EXPECT_TRUE(read.matches(step));
  Call other = step;
  other.name.kind = Kind::kReduce;
  EXPECT_FALSE(other.matches(step));
}

}  // namespace
}  // namespace lockstep::shm
