#include "lockstep/data/datasets/error_place.h"

#include <gmock/gmock.h>

#include <new>
#include <stdexcept>

namespace lockstep::data {
namespace {

using ::testing::ThrowsMessage;

template <class Thrown>
auto thrown(const Thrown& what) {
  return [what] { with_place([] { return "sample 3: "; }, [&]() -> int { throw what; }); };
}

TEST(WithPlace, GivesWhatIsMade) {
  const auto no_place = []() -> std::string { throw Error("nobody needs the place"); };
  EXPECT_EQ(with_place(no_place, [] { return 7; }), 7);
}

TEST(WithPlace, ErrorsOfLockstepKeepTheirType) {
  EXPECT_THAT(thrown(UsageError("no")), ThrowsMessage<UsageError>("sample 3: no"));
  EXPECT_THAT(thrown(IoError("no")), ThrowsMessage<IoError>("sample 3: no"));
  EXPECT_THAT(thrown(PeerError("no")), ThrowsMessage<PeerError>("sample 3: no"));
  EXPECT_THAT(thrown(Error("no")), ThrowsMessage<Error>("sample 3: no"));
  try {
    thrown(PeerError("no", PeerError::Cause::kLate))();
  } catch (const PeerError& error) {
    EXPECT_EQ(error.cause(), PeerError::Cause::kLate);
  }
}

TEST(WithPlace, OthersAreNestedInOneError) {
  const auto twice = [](const auto& what) {
    return [=] {
      with_place([] { return "batch 1, "; },
                 [&]() -> int {
                   thrown(what)();
                   return 0;
                 });
    };
  };
  EXPECT_THAT(twice(std::out_of_range("far")), ThrowsMessage<Error>("batch 1, sample 3: far"));
  EXPECT_THAT(thrown(3),
              ThrowsMessage<Error>("sample 3: something was thrown that is no std::exception"));
  try {
    twice(std::bad_alloc())();
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_THROW(std::rethrow_if_nested(error), std::bad_alloc);
  }
}

}  // namespace
}  // namespace lockstep::data
