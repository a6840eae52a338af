#include "lockstep/cluster/host_list.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>

#include "lockstep/base/error.h"

namespace lockstep::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

TEST(SlurmHosts, KeepWidthAndOrder) {
  EXPECT_THAT(expand_slurm_hosts("n[08-10,3],login"),
              ElementsAre("n08", "n09", "n10", "n3", "login"));
}

TEST(SlurmHosts, ExpandSeveralBracketsAndWhatFollows) {
  EXPECT_THAT(expand_slurm_hosts("r[1-2]n[1-2]-ib"),
              ElementsAre("r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"));
}

TEST(SlurmHosts, AnEmptyListHasNoHosts) { EXPECT_THAT(expand_slurm_hosts(""), IsEmpty()); }

TEST(SlurmHosts, RejectNonsense) {
  for (const char* list : {"n[1-", "n]1[", "n[[1]]", "n[a-b]", "n[3-1]", "n[1-99999999999]"}) {
    EXPECT_THAT([&] { expand_slurm_hosts(list); }, ThrowsMessage<UsageError>(HasSubstr("Slurm")))
        << list;
  }
}

TEST(SlurmTasks, ExpandRepeats) {
  EXPECT_THAT(expand_slurm_tasks("2(x3),1"), ElementsAre(2, 2, 2, 1));
}

TEST(SlurmTasks, RejectNonsense) {
  for (const char* list : {"", "x", "2(x", "2(x0)", "2(xa)", "2(x9999999999)", "-1"}) {
    EXPECT_THROW(expand_slurm_tasks(list), UsageError) << list;
  }
}

TEST(NodeFile, KeepsRepeatedLinesAndDropsEmptyOnes) {
  const std::string path = ::testing::TempDir() + "nodefile";
  std::ofstream(path) << "a\na\n\n b \r\n";
  EXPECT_THAT(read_node_file(path), ElementsAre("a", "a", "b"));
  std::remove(path.c_str());
}

TEST(NodeFile, NamesThePathThatIsNotThere) {
  EXPECT_THAT([] { read_node_file("/no/such/file"); },
              ThrowsMessage<IoError>(HasSubstr("/no/such/file")));
}

}  // namespace
}  // namespace lockstep::cluster
