#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <dirent.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::run_on_hosts;
using lockstep::testing::Tensors;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(HostsBackendDataMovement, AMessageMayHaveGapsAndComeFromAnywhere) {
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

TEST(HostsBackendDataMovement, AReceiveEndsWhenItsGroupDoes) {
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

// TCP connections of this process.
int count_connections() {
  int count = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), &::closedir);
  while (const dirent* entry = ::readdir(folder.get())) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const int fd = std::atoi(entry->d_name);
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        (peer.ss_family == AF_INET || peer.ss_family == AF_INET6)) {
      ++count;
    }
  }
  return count;
}

TEST(HostsBackendDataMovement, OnlyRanksThatHaveAMessageForEachOtherAreConnected) {
  run_on_hosts({2, 2}, [](Group& world) {
    const int before = count_connections();
    const auto group = world.new_group({0, 1, 2, 3});
    const auto sum = at::full({100000}, 1.0F);
    group.all_reduce(sum).wait();
    group.barrier();
    EXPECT_EQ(count_connections() - before, 1) << "with the other rank of its lane";
    group.barrier();  // All have counted.
    Tensors tensors{at::full({3}, 1.0F)};
    if (world.rank() == 0) {
      group.backend()->send(tensors, 3, 0)->wait();
    } else if (world.rank() == 3) {
      group.backend()->recv(tensors, 0, 0)->wait();
    }
    group.barrier();
    const bool has_spoken = world.rank() == 0 || world.rank() == 3;
    EXPECT_EQ(count_connections() - before, has_spoken ? 2 : 1);
    world.barrier();
  });
}

TEST(HostsBackendDataMovement, TheFirstReceiveReturnsAtOnceAlthoughNobodySends) {
  run_on_hosts({1, 1, 1}, [](Group& world) {
    Tensors tensors{at::zeros({3})};
    if (world.rank() == 0) {
      const auto begin = std::chrono::steady_clock::now();
      const auto work = world.backend()->recv(tensors, 2, 0);
      Tensors any{at::zeros({3})};
      const auto of_anyone = world.backend()->recvAnysource(any, 1);
      EXPECT_FALSE(work->isCompleted());
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
      world.store()->set("posted", std::vector<std::uint8_t>{1});
      work->wait();
      of_anyone->wait();
      EXPECT_EQ(of_anyone->sourceRank(), 2);
    } else if (world.rank() == 2) {
      world.store()->wait({"posted"});  // So long the receiver's thread went on.
      world.backend()->send(tensors, 0, 0)->wait();
      world.backend()->send(tensors, 0, 1)->wait();
    }
    world.barrier();
  });
}

TEST(HostsBackendDataMovement, ManyMessagesBothWaysRightAwayKeepTheirOrder) {
  run_on_hosts({1, 2, 1}, [](Group& world) {
    constexpr int kMany = 100;
    std::vector<c10::intrusive_ptr<c10d::Work>> sends;
    std::vector<Tensors> received;
    std::vector<c10::intrusive_ptr<c10d::Work>> receives;
    for (int i = 0; i < kMany; ++i) {
      for (int peer = 0; peer < world.size(); ++peer) {
        if (peer != world.rank()) {
          const int count = i % 10 == 0 ? 20000 : 5;  // Large ones among small ones.
          Tensors tensors{at::full({count}, 1000 * world.rank() + i)};
          sends.push_back(world.backend()->send(tensors, peer, 7));
          received.push_back({at::zeros({count}, at::kLong)});
          receives.push_back(world.backend()->recv(received.back(), peer, 7));
        }
      }
    }
    std::size_t at = 0;
    for (int i = 0; i < kMany; ++i) {
      for (int peer = 0; peer < world.size(); ++peer) {
        if (peer != world.rank()) {
          receives[at]->wait();
          ASSERT_EQ(received[at][0][-1].item<int>(), 1000 * peer + i);
          ++at;
        }
      }
    }
    for (const auto& work : sends) {
      work->wait();
    }
    world.barrier();
  });
}

// At any moment while its peers connect with it.
TEST(HostsBackendDataMovement, ARankThatEndsWhileItIsBeingConnectedWithIsNamed) {
  for (const int delay_us : {0, 1000, 5000, 20000}) {
    run_on_hosts({1, 1, 1}, [&](Group& world) {
      Tensors tensors{at::zeros({100000})};
      world.barrier();
      if (world.rank() == 2) {
        const auto work = world.backend()->recv(tensors, 0, 0);
        ::usleep(static_cast<useconds_t>(delay_us));
        ::_exit(0);  // Not killed, so that the others are left alone.
      }
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_THAT([&] { world.backend()->recv(tensors, 2, 0)->wait(); },
                  ThrowsMessage<PeerError>(HasSubstr("rank 2")));
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    });
  }
}

}  // namespace
}  // namespace lockstep::comm
