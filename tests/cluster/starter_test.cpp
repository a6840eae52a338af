#include "lockstep/cluster/starter.h"

#include <gtest/gtest.h>

namespace lockstep::cluster {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

Starter starter_of(Variables variables) { return find_starter(Environment(std::move(variables))); }

TEST(FindStarter, AnEmptyEnvironmentHasNone) { EXPECT_EQ(starter_of({}), Starter::kNobody); }

TEST(FindStarter, PbsTaskNumbersAreHexadecimal) {
  for (const char* task : {"00000002", "0000000A", "40000001", "A0000001", "2", "146"}) {
    EXPECT_EQ(starter_of({{"PBS_NODENUM", "0"}, {"PBS_TASKNUM", task}}), Starter::kPbsdsh) << task;
  }
}

TEST(FindStarter, ThePbsScriptIsTaskOneOfTheFirstNode) {
  for (const char* task : {"1", "00000001", "0"}) {
    EXPECT_EQ(starter_of({{"PBS_NODENUM", "0"}, {"PBS_TASKNUM", task}}), Starter::kNobody) << task;
  }
  EXPECT_EQ(starter_of({{"PBS_NODENUM", "1"}, {"PBS_TASKNUM", "1"}}), Starter::kPbsdsh);
}

}  // namespace
}  // namespace lockstep::cluster
