#include "lockstep/comm/backends/mpi/work.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::on_two_mpi_ranks;
using ::testing::ThrowsMessage;

TEST(MpiWork, AFutureCompletesWithTheResultAndNobodyWaits) {
  on_two_mpi_ranks([](Group& world) {
    std::vector<at::Tensor> tensors{at::full({3}, world.rank() + 1.0)};
    const auto work = world.backend()->allreduce(tensors);
    const auto future = work->getFuture();
    future->wait();
    EXPECT_EQ(future->value().toTensorVector().at(0).sum().item<double>(), 9);
    EXPECT_TRUE(work->isCompleted());
    EXPECT_TRUE(work->isSuccess());
  });
}

TEST(MpiWork, ACollectiveGoesOnAfterAShortWait) {
  on_two_mpi_ranks([](Group& world) {
    std::vector<at::Tensor> tensors{at::full({3}, world.rank() + 1.0)};
    if (world.rank() == 0) {
      const auto work = world.backend()->allreduce(tensors);
      EXPECT_THAT([&] { work->wait(std::chrono::milliseconds(50)); },
                  ThrowsMessage<PeerError>(HasSubstr("it goes on, wait again")));
      world.store()->set("waited", "1");
      EXPECT_TRUE(work->wait());
    } else {
      world.store()->wait({"waited"});
      world.backend()->allreduce(tensors)->wait();
    }
    EXPECT_EQ(tensors[0].sum().item<double>(), 9);
  });
}

TEST(MpiWork, AMessageFromAnyoneTellsItsSource) {
  on_two_mpi_ranks([](Group& world) {
    std::vector<at::Tensor> tensors{at::full({3}, world.rank() + 1.0)};
    if (world.rank() == 1) {
      world.backend()->send(tensors, 0, 5)->wait();
    } else {
      const auto work = world.backend()->recvAnysource(tensors, 5);
      work->wait();
      EXPECT_EQ(work->sourceRank(), 1);
      EXPECT_EQ(tensors[0].sum().item<double>(), 6);
    }
  });
}

}  // namespace
}  // namespace lockstep
