#include "lockstep/comm/backends/mpi/library.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(MpiLibrary, HasWhatItsTableNames) {
  const MpiLibrary mpi;
  EXPECT_NE(mpi.world(), nullptr);
  EXPECT_NE(mpi.iallreduce, nullptr);
}

TEST(MpiLibrary, ASymbolThatIsNotThereIsNamed) {
  EXPECT_THAT([] { (void)MpiLibrary().object<MPI_Op>("ompi_mpi_op_guess"); },
              ThrowsMessage<UsageError>(HasSubstr("ompi_mpi_op_guess")));
}

TEST(MpiLibrary, AnErrorCarriesTheOperationAndMpisWords) {
  EXPECT_NO_THROW(MpiLibrary().check(MPI_SUCCESS, "send"));
  EXPECT_THAT([] { MpiLibrary().check(MPI_ERR_TRUNCATE, "recv"); },
              ThrowsMessage<PeerError>(AllOf(HasSubstr("recv: MPI says"), HasSubstr("truncated"))));
}

}  // namespace
}  // namespace lockstep::comm
