#include "lockstep/cluster/discover.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>

#include "lockstep/base/error.h"

namespace lockstep::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Variables = std::map<std::string, std::string, std::less<>>;

Membership found(Variables variables) { return discover(Environment(std::move(variables)), 42); }

Variables slurm_step(Variables more = {}) {
  more.merge(Variables{{"SLURM_JOB_ID", "17"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_PROCID", "3"},
                       {"SLURM_NTASKS", "4"},
                       {"SLURM_LOCALID", "1"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_TASKS_PER_NODE", "2(x2)"},
                       {"SLURM_JOB_NODELIST", "n[1-2]"}});
  return more;
}

TEST(Discover, NothingSetMeansAlone) {
  const auto member = found({});
  EXPECT_EQ(member.found_by, "alone");
  EXPECT_FALSE(member.launched);
  EXPECT_EQ(member.world_size, 1);
}

TEST(Discover, RankAndWorldSizeComeFirst) {
  auto variables = slurm_step({{"RANK", "1"},
                               {"WORLD_SIZE", "2"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"GROUP_RANK", "0"},
                               {"MASTER_ADDR", "10.0.0.1"},
                               {"MASTER_PORT", "1234"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  const auto member = found(variables);
  EXPECT_EQ(member.found_by, "RANK and WORLD_SIZE");
  EXPECT_EQ(member.rank, 1);
  EXPECT_EQ(member.local_rank, 1);
  EXPECT_EQ(member.node_rank, 0);
  EXPECT_EQ(to_text(*member.master), "10.0.0.1:1234");
  EXPECT_TRUE(member.launcher_serves_store);
}

TEST(Discover, RankBeyondTheWorldSizeIsNamed) {
  EXPECT_THAT([] { found({{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}}); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("RANK"), HasSubstr("2"))));
}

TEST(Discover, EachMissingVariableIsNamed) {
  EXPECT_THAT([] { found({{"RANK", "0"}}); }, ThrowsMessage<UsageError>(HasSubstr("WORLD_SIZE")));
  EXPECT_THAT([] { found({{"WORLD_SIZE", "2"}}); }, ThrowsMessage<UsageError>(HasSubstr("RANK")));
  EXPECT_THAT([] { found({{"RANK", "0"}, {"WORLD_SIZE", "2"}}); },
              ThrowsMessage<UsageError>(HasSubstr("MASTER_ADDR")));
}

TEST(Discover, TextWhereANumberBelongsIsNamed) {
  EXPECT_THAT([] { found({{"RANK", "zero"}, {"WORLD_SIZE", "2"}}); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("RANK"), HasSubstr("'zero'"))));
  for (const char* port : {"http", "0", "65536", "29500x"}) {
    EXPECT_THAT(
        [&] {
          found({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", port}});
        },
        ThrowsMessage<UsageError>(HasSubstr("MASTER_PORT")))
        << port;
  }
}

TEST(Discover, AWorldOfOneNeedsNoAddress) {
  const auto member = found({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_TRUE(member.launched);
  EXPECT_FALSE(member.master);
}

TEST(Discover, ASlurmStepOnSeveralHostsMeetsOnTheFirst) {
  const auto member = found(slurm_step());
  EXPECT_EQ(member.found_by, "Slurm step 17.0");
  EXPECT_EQ(member.rank, 3);
  EXPECT_EQ(member.world_size, 4);
  EXPECT_EQ(member.local_rank, 1);
  EXPECT_EQ(member.local_size, 2);
  EXPECT_EQ(member.node_rank, 1);
  EXPECT_EQ(member.master->host, "n1");
  EXPECT_EQ(member.master->port, found(slurm_step({{"SLURM_PROCID", "0"}})).master->port);
  EXPECT_NE(member.master->port, found(slurm_step({{"SLURM_JOB_ID", "18"}})).master->port);
}

TEST(Discover, ASlurmStepOnOneHostMeetsByJobId) {
  const auto member =
      found(slurm_step({{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_TASKS_PER_NODE", "4"}}));
  EXPECT_FALSE(member.master);
  EXPECT_EQ(member.meeting_name, "slurm-17.0");
}

TEST(Discover, MasterAddrWinsOverTheScheduler) {
  const auto member = found(slurm_step({{"MASTER_ADDR", "10.1.1.1"}, {"MASTER_PORT", "5"}}));
  EXPECT_EQ(to_text(*member.master), "10.1.1.1:5");
}

TEST(Discover, AProgramInABatchScriptIsAlone) {
  auto variables = slurm_step();
  variables.erase("SLURM_STEP_ID");
  EXPECT_FALSE(found(variables).launched);
  variables["SLURM_STEP_ID"] = "4294967291";  // SLURM_BATCH_SCRIPT
  EXPECT_FALSE(found(variables).launched);
  EXPECT_FALSE(found({{"PBS_JOBID", "1"}, {"PBS_TASKNUM", "1"}, {"PBS_NODENUM", "0"}}).launched);
}

TEST(Discover, OpenMpiOnOneHostMeetsByJobId) {
  const auto member = found({{"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                             {"PMIX_NAMESPACE", "123"}});
  EXPECT_EQ(member.found_by, "Open MPI");
  EXPECT_EQ(member.rank, 1);
  EXPECT_EQ(member.meeting_name, "openmpi-123");
}

TEST(Discover, MpirunInsideASlurmStepDecides) {
  // srun -n1 mpirun -n 2, and the daemons that mpirun starts with srun: their step has other ranks.
  const auto member = found(slurm_step({{"OMPI_COMM_WORLD_RANK", "1"},
                                        {"OMPI_COMM_WORLD_SIZE", "2"},
                                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
  EXPECT_EQ(member.found_by, "Open MPI");
  EXPECT_EQ(member.rank, 1);
  EXPECT_EQ(member.world_size, 2);
}

TEST(Discover, OpenMpiOnSeveralHostsWithoutAListAsksForMasterAddr) {
  EXPECT_THAT(
      [] {
        found({{"OMPI_COMM_WORLD_RANK", "1"},
               {"OMPI_COMM_WORLD_SIZE", "4"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
      },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("rank 1"), HasSubstr("MASTER_ADDR"))));
}

TEST(Discover, MpirunWithoutPbssNodeFileAsksForMasterAddr) {
  EXPECT_THAT(
      [] {
        found({{"OMPI_COMM_WORLD_RANK", "1"},
               {"OMPI_COMM_WORLD_SIZE", "2"},
               {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
               {"PBS_NODEFILE", "/no/such/file"}});
      },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("on rank 1 of 2: Open MPI"),
                                      HasSubstr("/no/such/file"),
                                      HasSubstr("mpirun -x MASTER_ADDR"))));
}

TEST(Discover, WithMasterAddrNoNodeFileIsRead) {
  const auto member = found({{"PMI_RANK", "1"},
                             {"PMI_SIZE", "2"},
                             {"MPI_LOCALNRANKS", "1"},
                             {"MASTER_ADDR", "10.0.0.1"},
                             {"PBS_NODEFILE", "/no/such/file"}});
  EXPECT_EQ(member.master->host, "10.0.0.1");
}

TEST(Discover, PmiRanksOfOneHostMeetByTheirParent) {
  const auto member = found(
      {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(member.found_by, "PMI");
  EXPECT_EQ(member.meeting_name, "pmi-child-of-42");
}

TEST(Discover, PmiRanksOnSeveralHostsGoToOneAddressWhateverTheirParents) {
  const Environment environment(Variables{
      {"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "2"}, {"MASTER_ADDR", "10.0.0.1"}});
  EXPECT_EQ(to_text(*discover(environment, 1).master), to_text(*discover(environment, 2).master));
}

TEST(Discover, ARankBeyondAnIntIsNotCutToOne) {
  EXPECT_THROW(found(slurm_step({{"SLURM_PROCID", "4294967296"}})), UsageError);
  EXPECT_THROW(found({{"PMI_RANK", "4294967296"}, {"PMI_SIZE", "2"}}), UsageError);
}

TEST(Discover, PbsdshCountsTheLinesOfTheNodeFile) {
  const std::string path = ::testing::TempDir() + "pbs_nodes";
  std::ofstream(path) << "a\na\nb\nb\n";
  const auto member = found({{"PBS_JOBID", "9.server"},
                             {"PBS_TASKNUM", "4"},
                             {"PBS_VNODENUM", "3"},
                             {"PBS_NODEFILE", path}});
  EXPECT_EQ(member.found_by, "pbsdsh of job 9.server");
  EXPECT_EQ(member.rank, 3);
  EXPECT_EQ(member.world_size, 4);
  EXPECT_EQ(member.local_rank, 1);
  EXPECT_EQ(member.local_size, 2);
  EXPECT_EQ(member.node_rank, 1);
  EXPECT_EQ(member.master->host, "a");
  std::remove(path.c_str());
}

TEST(Discover, APbsdshTaskWithoutANodeFileIsNotAlone) {
  EXPECT_THAT(
      [] { found({{"PBS_JOBID", "9"}, {"PBS_NODENUM", "0"}, {"PBS_TASKNUM", "00000002"}}); },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("node 0 of PBS job 9: PBS_NODEFILE is not set"),
                                      HasSubstr("set RANK, WORLD_SIZE and MASTER_ADDR"))));
}

TEST(DiscoverEnv, TheCallsRankTakesThePlaceOfTheVariable) {
  const Environment environment(
      Variables{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}});
  EXPECT_EQ(discover_env(environment, 1, 4).rank, 1);
  EXPECT_EQ(discover_env(environment, 1, 4).world_size, 4);
}

}  // namespace
}  // namespace lockstep::cluster
