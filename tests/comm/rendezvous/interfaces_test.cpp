#include "lockstep/comm/rendezvous/interfaces.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

using Variables = std::map<std::string, std::string, std::less<>>;

cluster::Membership of_world(int world_size, std::optional<int> local_size = std::nullopt) {
  cluster::Membership member;
  member.world_size = world_size;
  member.local_size = local_size;
  return member;
}

TEST(Interfaces, AJobOnOneHostStaysOnLoopback) {
  EXPECT_THAT(choose_interfaces({}, of_world(2, 2), "10.0.0.1"), ElementsAre("lo"));
  EXPECT_THAT(choose_interfaces({}, of_world(1), ""), ElementsAre("lo"));
}

TEST(Interfaces, TheOneThatRoutesToTheMasterIsTaken) {
  EXPECT_THAT(choose_interfaces({}, of_world(4, 2), "127.0.0.1"), ElementsAre("lo"));
}

TEST(Interfaces, WithoutAMasterTheBackendChooses) {
  EXPECT_THAT(choose_interfaces({}, of_world(2), ""), IsEmpty());
}

TEST(Interfaces, OurVariableWinsOverGloos) {
  const Environment environment(
      Variables{{"LOCKSTEP_SOCKET_IFNAME", "lo"}, {"GLOO_SOCKET_IFNAME", "nosuch0"}});
  EXPECT_THAT(choose_interfaces(environment, of_world(4, 2), "10.0.0.1"), ElementsAre("lo"));
}

TEST(Interfaces, AnUnknownNameIsAnErrorThatNamesTheVariable) {
  const Environment environment(Variables{{"GLOO_SOCKET_IFNAME", "lo,nosuch0"}});
  EXPECT_THAT(
      [&] { choose_interfaces(environment, of_world(2), ""); },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("GLOO_SOCKET_IFNAME"), HasSubstr("'nosuch0'"))));
}

}  // namespace
}  // namespace lockstep::comm
