#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <dirent.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::run_on_hosts;
using lockstep::testing::Tensors;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// TCP sockets of this process that are connected.
int connections() {
  int count = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    int protocol = 0;
    socklen_t length = sizeof protocol;
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    count += ::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 &&
                     protocol == IPPROTO_TCP &&
                     ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0
                 ? 1
                 : 0;
  }
  return count;
}

TEST(HostsMoves, RanksAreConnectedWhenTheyNeedEachOther) {
  run_on_hosts({2, 2, 2, 2}, [](Group& world) {
    world.barrier();
    const int before = connections();
    EXPECT_LE(before, 3 + 1 + 8) << "its lane, the store, and on one rank the store's clients";
    if (world.rank() == 0) {
      Tensors tensors{at::full({3}, 1.0F)};
      world.backend()->send(tensors, 7, 0)->wait();
    } else if (world.rank() == 7) {
      Tensors tensors{at::zeros({3})};
      world.backend()->recv(tensors, 0, 0)->wait();
      EXPECT_EQ(tensors[0][2].item<float>(), 1);
    }
    const bool spoke = world.rank() == 0 || world.rank() == 7;
    EXPECT_LE(connections(), before + (spoke ? 2 : 0));
    world.barrier();
  });
}

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

// It is connected after the group was formed: cutting the group must find it.
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
