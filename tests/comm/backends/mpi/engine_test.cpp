#include "lockstep/comm/backends/mpi/engine.h"

#include <gmock/gmock.h>

#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/backends/mpi/process.h"
#include "tests/comm/ranks.h"
#include "tests/support/soon.h"

namespace lockstep::comm {
namespace {

using ::testing::HasSubstr;
using testing::soon;
using ::testing::ThrowsMessage;

MpiCall barrier(std::chrono::milliseconds timeout) {
  MpiCall call{.what = "a barrier", .deadline = Deadline::in(timeout)};
  call.begins.push_back([](const MpiLibrary& mpi, MPI_Comm comm, MPI_Request* request) {
    return mpi.ibarrier(comm, request);
  });
  return call;
}

TEST(MpiEngine, ItsOwnThreadMakesProgressWhenNobodyWaits) {
  auto& process = MpiProcess::get(soon());
  const auto self = process.make_group({process.rank()}, 1, soon());
  const auto operation =
      std::make_shared<MpiOperation>(self, barrier(std::chrono::milliseconds(60000)));
  process.engine().start(operation);
  const auto limit = soon();
  while (!operation->is_done() && !limit.passed()) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(operation->is_done());
}

TEST(MpiEngine, ALateCollectiveBreaksItsGroup) {
  testing::run_ranks(
      2,
      [](Group& world) {
        auto& process = MpiProcess::get(soon());
        const auto pair = process.make_group({0, 1}, 2, soon());
        if (world.rank() == 1) {
          const auto late_one =
              std::make_shared<MpiOperation>(pair, barrier(std::chrono::milliseconds(100)));
          process.engine().start(late_one);
          process.engine().wait(*late_one, soon());
          EXPECT_THAT([&] { std::rethrow_exception(late_one->error()); },
                      ThrowsMessage<PeerError>(HasSubstr("a barrier: timed out after 100 ms")));
          EXPECT_THAT(
              [&] {
                process.engine().start(
                    std::make_shared<MpiOperation>(pair, barrier(std::chrono::milliseconds(100))));
              },
              ThrowsMessage<PeerError>(HasSubstr("the group is of no use since a barrier")));
        }
        world.barrier();
      },
      "mpi");
}

}  // namespace
}  // namespace lockstep::comm
