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

// A task of srun, of two on two nodes.
Variables second_of_two(Variables more) {
  more.merge(
      Variables{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  return more;
}

TEST(FindStarter, HydrasRanksAreNotThoseOfTheProxiesThatSrunHasStarted) {
  EXPECT_EQ(starter_of(second_of_two({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}})), Starter::kPmi);
  EXPECT_EQ(starter_of(second_of_two({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}})), Starter::kPmi);
  EXPECT_EQ(starter_of(second_of_two({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}})), Starter::kPmi);
  // In another order of hosts one rank may have its proxy's number, and must agree with the rest.
  EXPECT_EQ(
      starter_of(second_of_two({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "1"}})),
      Starter::kPmi);
}

TEST(FindStarter, SrunWithPmi2IsSrun) {
  EXPECT_EQ(starter_of(second_of_two({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})), Starter::kSlurm);
  EXPECT_EQ(starter_of({{"SLURM_STEP_ID", "0"},
                        {"SLURM_PROCID", "1"},
                        {"SLURM_NTASKS", "2"},
                        {"PMI_RANK", "1"},
                        {"PMI_SIZE", "2"}}),
            Starter::kSlurm);
}

}  // namespace
}  // namespace lockstep::cluster
