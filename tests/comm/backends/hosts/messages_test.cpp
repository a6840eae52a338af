#include "lockstep/comm/backends/hosts/messages.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/socket.h"

namespace lockstep::comm {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(MessageAddress, IsThatOfTheFirstInterface) {
  EXPECT_EQ(message_address({"lo", "none"}), "127.0.0.1");
  EXPECT_THAT([] { (void)message_address({"none"}); },
              ThrowsMessage<UsageError>(HasSubstr("interface 'none' has no address")));
}

TEST(MessageAddress, WithoutOneItIsAnAddressOfThisMachine) {
  EXPECT_TRUE(is_this_machine(message_address({})));
}

}  // namespace
}  // namespace lockstep::comm
