#include "lockstep/cluster/discover_node.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "lockstep/base/error.h"

namespace lockstep::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Variables = std::map<std::string, std::string, std::less<>>;

std::optional<NodePlace> place_of(Variables variables) {
  return discover_node(Environment(std::move(variables)));
}

template <typename... Parts>
void expect_error(const Variables& variables, Parts... parts) {
  EXPECT_THAT([&] { place_of(variables); }, ThrowsMessage<UsageError>(AllOf(HasSubstr(parts)...)));
}

// What Slurm 23.11 gives to the one task of the second of two nodes.
Variables slurm_task(Variables more = {}) {
  more.merge(Variables{{"SLURM_JOB_ID", "17"},
                       {"SLURM_JOB_NODELIST", "n[1-2]"},
                       {"SLURM_JOB_NUM_NODES", "2"},
                       {"SLURM_LOCALID", "0"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_NTASKS", "2"},
                       {"SLURM_PROCID", "1"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_STEP_NODELIST", "n[1-2]"},
                       {"SLURM_STEP_NUM_TASKS", "2"},
                       {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}});
  return more;
}

Variables slurm_allocation() {
  return {{"SLURM_JOB_ID", "17"}, {"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_NTASKS", "2"}};
}

class NodeFile {
 public:
  explicit NodeFile(const char* lines)
      : path_(::testing::TempDir() + "nodes" + std::to_string(::getpid())) {
    std::ofstream(path_) << lines;
  }
  ~NodeFile() { std::remove(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(DiscoverNode, WithoutAStarterTheJobIsHere) { EXPECT_FALSE(place_of({})); }

TEST(DiscoverNode, ASlurmTaskANodeIsALauncher) {
  const auto place = place_of(slurm_task());
  ASSERT_TRUE(place);
  EXPECT_EQ(place->found_by, "Slurm step 17.0");
  EXPECT_EQ(place->count, 2);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->master.host, "n1");
  EXPECT_EQ(place->job, "slurm-17.0");
}

TEST(DiscoverNode, NodesAgreeOnAPortAndStepsDiffer) {
  const int port = place_of(slurm_task())->master.port;
  const Variables first{{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}};
  EXPECT_EQ(place_of(slurm_task(first))->master.port, port);
  EXPECT_NE(place_of(slurm_task({{"SLURM_STEP_ID", "1"}}))->master.port, port);
  EXPECT_NE(place_of(slurm_task({{"SLURM_JOB_ID", "18"}}))->master.port, port);
}

TEST(DiscoverNode, TheNodeRankIsThatOfTheHostListWhateverTheTask) {
  // srun --distribution=arbitrary may put task 0 on the second host; the master is the first one.
  EXPECT_EQ(place_of(slurm_task({{"SLURM_PROCID", "0"}}))->rank, 1);
}

TEST(DiscoverNode, MasterAddrAndPortAreHonoured) {
  const auto place = place_of(slurm_task({{"MASTER_ADDR", "10.1.1.1"}, {"MASTER_PORT", "77"}}));
  EXPECT_EQ(to_text(place->master), "10.1.1.1:77");
}

TEST(DiscoverNode, AStepOfOneTaskIsAJobOfThisNode) {
  EXPECT_FALSE(place_of(slurm_task({{"SLURM_NODEID", "0"},
                                    {"SLURM_PROCID", "0"},
                                    {"SLURM_STEP_NODELIST", "n2"},
                                    {"SLURM_STEP_NUM_TASKS", "1"},
                                    {"SLURM_STEP_TASKS_PER_NODE", "1"}})));
}

TEST(DiscoverNode, AWorkerOfAnotherLauncherRunsAJobOfItsOwn) {
  EXPECT_FALSE(place_of(slurm_task({{"RANK", "1"}, {"WORLD_SIZE", "2"}})));
  auto allocation = slurm_allocation();
  allocation["RANK"] = "0";
  EXPECT_FALSE(place_of(allocation));
}

TEST(DiscoverNode, TheWorldSizeOfABatchScriptDoesNotHideTheStep) {
  const auto place = place_of(slurm_task({{"WORLD_SIZE", "8"}}));
  ASSERT_TRUE(place);
  EXPECT_EQ(place->count, 2);
  EXPECT_EQ(place->rank, 1);
  EXPECT_FALSE(place_of({{"WORLD_SIZE", "8"}}));
}

TEST(DiscoverNode, SeveralTasksOnOneNodeSayWhatToWrite) {
  expect_error(slurm_task({{"SLURM_STEP_NODELIST", "n1"},
                           {"SLURM_STEP_NUM_TASKS", "4"},
                           {"SLURM_STEP_TASKS_PER_NODE", "4"}}),
               "Slurm step 17.0 starts 4 tasks on 1 node", "srun --ntasks-per-node=1 lockstep run",
               "--standalone");
  expect_error({{"OMPI_COMM_WORLD_RANK", "0"},
                {"OMPI_COMM_WORLD_SIZE", "2"},
                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                {"PMIX_NAMESPACE", "1"}},
               "Open MPI starts 2 tasks on this node", "mpirun --map-by ppr:1:node lockstep run");
  expect_error({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}},
               "PMI starts 2 tasks on this node", "mpiexec -ppn 1 lockstep run");
}

TEST(DiscoverNode, TasksThatMayShareANodeAreNotTakenForNodes) {
  const Variables unknown{{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"MASTER_ADDR", "a"}};
  expect_error(unknown, "PMI starts 4 tasks, but does not tell how many of them are on this node",
               "--nnodes", "--node-rank", "--master-addr");
  auto shared = unknown;  // As Cray's PALS tells it.
  shared["PMI_LOCAL_SIZE"] = "2";
  expect_error(shared, "PMI starts 2 tasks on this node");
  auto one = unknown;
  one["PMI_LOCAL_SIZE"] = "1";
  ASSERT_TRUE(place_of(one));
  EXPECT_EQ(place_of(one)->count, 4);
  EXPECT_FALSE(place_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}));
}

TEST(DiscoverNode, TheNodeWithOneOfThreeTasksDoesNotWaitForTheOtherTwo) {
  expect_error(slurm_task({{"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_STEP_TASKS_PER_NODE", "2,1"}}),
               "Slurm step 17.0 starts 3 tasks on 2 nodes");
}

TEST(DiscoverNode, AnAllocationWithoutAStepSaysThatSrunIsMissing) {
  expect_error(slurm_allocation(), "Slurm job 17 has 2 nodes",
               "srun --ntasks-per-node=1 lockstep run", "--standalone");
  auto interactive = slurm_allocation();
  interactive["SLURM_STEP_ID"] = "4294967290";  // SLURM_INTERACTIVE_STEP, the shell of salloc
  interactive["SLURM_PROCID"] = "0";
  expect_error(interactive, "Slurm job 17 has 2 nodes");
}

TEST(DiscoverNode, AnAllocationOfOneNodeNeedsNoSrun) {
  EXPECT_FALSE(
      place_of({{"SLURM_JOB_ID", "17"}, {"SLURM_JOB_NODELIST", "n1"}, {"SLURM_NTASKS", "4"}}));
}

TEST(DiscoverNode, MpirunsNodesAreThoseOfTheBatchJob) {
  const NodeFile nodes("a\na\nb\nb\n");
  const auto place = place_of({{"OMPI_COMM_WORLD_RANK", "1"},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                               {"PMIX_NAMESPACE", "123"},
                               {"PBS_JOBID", "9.server"},
                               {"PBS_NODEFILE", nodes.path()}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->found_by, "Open MPI");
  EXPECT_EQ(place->count, 2);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->master.host, "a");
}

Variables pbsdsh_task(const std::string& node_file, Variables more = {}) {
  more.merge(Variables{{"PBS_JOBID", "9.server"},
                       {"PBS_NODENUM", "1"},
                       {"PBS_TASKNUM", "3"},
                       {"PBS_NODEFILE", node_file}});
  return more;
}

TEST(DiscoverNode, APbsdshTaskANodeIsALauncher) {
  const NodeFile nodes("a\nb\n");
  for (const Variables& numbering : {Variables{}, Variables{{"PBS_VNODENUM", "1"}}}) {
    const auto place = place_of(pbsdsh_task(nodes.path(), numbering));
    ASSERT_TRUE(place);
    EXPECT_EQ(place->found_by, "pbsdsh of job 9.server");
    EXPECT_EQ(place->count, 2);
    EXPECT_EQ(place->rank, 1);
    EXPECT_EQ(place->master.host, "a");
    EXPECT_EQ(place->job, "pbs-9.server");
  }
}

TEST(DiscoverNode, PbsdshTasksOnSharedNodesSayWhatToWrite) {
  const NodeFile nodes("a\na\nb\nb\n");
  for (const Variables& numbering : {Variables{}, Variables{{"PBS_VNODENUM", "1"}}}) {
    expect_error(pbsdsh_task(nodes.path(), numbering), "starts 4 tasks on 2 nodes", "mpiprocs=1");
  }
}

TEST(DiscoverNode, ANodeFileOutOfReachIsExplained) {
  expect_error(pbsdsh_task("/no/such/file"), "/no/such/file", "job.pbs", "--nnodes");
  expect_error({{"PBS_JOBID", "9"}, {"PBS_NODENUM", "1"}, {"PBS_TASKNUM", "20000001"}},
               "on node 1 of PBS job 9: PBS_NODEFILE is not set", "job.pbs");
}

TEST(DiscoverNode, APbsdshTaskOfNode0WithoutANodeFileDoesNotTrainAlone) {
  expect_error({{"PBS_JOBID", "9"}, {"PBS_NODENUM", "0"}, {"PBS_TASKNUM", "00000002"}},
               "on node 0 of PBS job 9: PBS_NODEFILE is not set", "job.pbs", "--nnodes");
}

TEST(DiscoverNode, MpirunsRanksBelowPbssTasksNeedNoNodeFileWhereMasterAddrIsSet) {
  // Open MPI starts its daemons as tasks of PBS, as pbsdsh does.
  const auto place = place_of({{"OMPI_COMM_WORLD_RANK", "1"},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                               {"MASTER_ADDR", "a"},
                               {"PBS_JOBID", "9"},
                               {"PBS_NODENUM", "1"},
                               {"PBS_TASKNUM", "20000001"},
                               {"PBS_NODEFILE", "/no/such/file"}});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->master.host, "a");
}

TEST(DiscoverNode, APbsScriptOfSeveralNodesSaysThatPbsdshIsMissing) {
  const NodeFile nodes("a\nb\n");
  const Variables script{{"PBS_JOBID", "9"}, {"PBS_NODENUM", "0"}, {"PBS_TASKNUM", "1"}};
  auto two = script;
  two["PBS_NODEFILE"] = nodes.path();
  expect_error(two, "PBS job 9 has 2 nodes", "pbsdsh -- env PBS_NODEFILE=COPY lockstep run",
               "docs/guides/clusters/job.pbs", "--standalone");
  auto hidden = script;  // As in a container.
  hidden["PBS_NODEFILE"] = "/no/such/file";
  EXPECT_FALSE(place_of(hidden));
}

}  // namespace
}  // namespace lockstep::cluster
