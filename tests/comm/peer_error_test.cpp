#include "lockstep/comm/peer_error.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Property;
using ::testing::Throws;
using ::testing::ThrowsMessage;

TEST(PeerErrorText, HasTheOperationAndNoStackTraceOrSourcePosition) {
  EXPECT_THAT(
      [] {
        as_peer_error("all_reduce #3 on rank 1 of 2", [] {
          throw std::runtime_error(
              "[/build/gloo/pair.cc:534] Connection closed by peer [10.0.0.2]\nat x");
        });
      },
      ThrowsMessage<PeerError>(
          AllOf(HasSubstr("all_reduce #3 on rank 1 of 2: Connection closed by peer"),
                Not(HasSubstr("pair.cc")), Not(HasSubstr("at x")))));
}

TEST(PeerErrorText, TimeoutsSayWhatToRaise) {
  EXPECT_THAT([] { as_peer_error("x", [] { TORCH_CHECK(false, "Timed out waiting 5000ms"); }); },
              Throws<PeerError>(AllOf(Property(&PeerError::cause, PeerError::Cause::kLate),
                                      Property(&PeerError::what, HasSubstr("raise the timeout")))));
}

TEST(PeerErrorText, OwnErrorsPassUnchanged) {
  EXPECT_THAT([] { as_peer_error("x", [] { throw IoError("disk"); }); },
              ThrowsMessage<IoError>(::testing::StrEq("disk")));
}

}  // namespace
}  // namespace lockstep::comm
