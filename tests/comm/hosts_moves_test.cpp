#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::run_on_hosts;
using lockstep::testing::Tensors;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(HostsMoves, AMessageMayHaveGapsAndComeFromAnywhere) {
  run_on_hosts({1, 1, 1}, [](Group& world) {
    if (world.rank() > 0) {
      Tensors tensors{at::full({2, 3}, static_cast<float>(world.rank())).t()};
      world.backend()->send(tensors, 0, 5)->wait();
    } else {
      double sum = 0;
      for (int i = 0; i < 2; ++i) {
        const auto wide = at::zeros({3, 4});
        Tensors tensors{wide.slice(1, 0, 4, 2)};
        const auto work = world.backend()->recvAnysource(tensors, 5);
        work->wait();
        EXPECT_EQ(wide.sum().item<double>(), 6.0 * work->sourceRank());
        sum += wide.sum().item<double>();
      }
      EXPECT_EQ(sum, 18);
    }
    world.barrier();
  });
}

TEST(HostsMoves, AReceiveEndsWhenItsGroupDoes) {
  run_on_hosts({1, 1, 1}, [](Group& world) {
    Tensors tensors{at::full({3}, 1.0F)};
    if (world.rank() == 0) {
      world.backend()->send(tensors, 1, 0)->wait();
      ::usleep(300000);
      world.backend()->abort();
    } else if (world.rank() == 1) {
      world.backend()->recv(tensors, 0, 0)->wait();
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_THAT([&] { world.backend()->recv(tensors, 0, 0)->wait(); },
                  ThrowsMessage<PeerError>(HasSubstr("rank 0")));
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    }
    ::usleep(1000000);
  });
}

}  // namespace
}  // namespace lockstep::comm
