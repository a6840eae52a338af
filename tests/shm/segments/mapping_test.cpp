#include "lockstep/shm/segments/mapping.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"

namespace lockstep::shm {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::size_t kMapped = 4 * kGranule;

UniqueFd file_of(std::size_t bytes) {
  UniqueFd fd(::memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  return fd;
}

// What `body` returns in a fork of this process; its exit status if that is another.
template <class Body>
int in_fork(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

TEST(ShmMapping, BeyondShowsTheSameFileFromThereOn) {
  const UniqueFd fd = file_of(8 * kMapped);
  const Mapping whole = Mapping::of_file(fd.get(), 0, 8 * kMapped);
  const Mapping first = Mapping::of_file(fd.get(), 0, kMapped);
  const Mapping longer = Mapping::beyond(first, 0, 8 * kMapped);
  const Mapping next = Mapping::beyond(first, kMapped, kMapped);
  const Mapping after = Mapping::beyond(next, kMapped, 6 * kMapped);
  for (std::size_t i = 0; i < 8 * kMapped; i += 1000) {
    whole.data()[i] = static_cast<std::byte>(i % 251);
  }
  for (std::size_t i = 0; i < 8 * kMapped; i += 1000) {
    ASSERT_EQ(longer.data()[i], whole.data()[i]);
    if (i >= 2 * kMapped) {
      ASSERT_EQ(after.data()[i - 2 * kMapped], whole.data()[i]);
    } else if (i >= kMapped) {
      ASSERT_EQ(next.data()[i - kMapped], whole.data()[i]);
    }
  }
}

TEST(ShmMapping, MoreThanThereAreAddressesIsAnIoErrorThatSaysHowMuch) {
  const UniqueFd fd = file_of(kMapped);
  const Mapping first = Mapping::of_file(fd.get(), 0, kMapped);
  EXPECT_THAT([&] { Mapping::of_file(fd.get(), 0, std::size_t{1} << 50); },
              ThrowsMessage<IoError>(HasSubstr("1024.0 TiB")));
  EXPECT_THAT([&] { Mapping::beyond(first, kMapped, std::size_t{1} << 50); },
              ThrowsMessage<IoError>(HasSubstr("ulimit -v")));
}

TEST(ShmMapping, MovingLeavesOneOwner) {
  const UniqueFd fd = file_of(kMapped);
  Mapping first = Mapping::of_file(fd.get(), 0, kMapped);
  std::byte* data = first.data();
  Mapping second = std::move(first);
  Mapping third;
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.bytes(), kMapped);
  data[0] = std::byte{1};  // Still mapped.
}

TEST(ShmMappingInAFork, WhatItWritesStaysWithIt) {
  const UniqueFd fd = file_of(kMapped);
  const Mapping mapping = Mapping::of_file(fd.get(), 0, kMapped);
  std::memset(mapping.data(), 7, kMapped);
  const int seen = in_fork([&] {
    const auto before = std::to_integer<int>(mapping.data()[kMapped - 1]);
    std::memset(mapping.data(), 9, kMapped);
    return before * 10 + std::to_integer<int>(mapping.data()[kMapped - 1]);
  });
  EXPECT_EQ(seen, 79) << "what was there, what it wrote";
  EXPECT_EQ(mapping.data()[0], std::byte{7});
  EXPECT_EQ(mapping.data()[kMapped - 1], std::byte{7});
}

TEST(ShmMappingInAFork, AnOffsetInTheFileIsKept) {
  const UniqueFd fd = file_of(2 * kMapped);
  const Mapping mapping = Mapping::of_file(fd.get(), kMapped, kMapped);
  mapping.data()[3] = std::byte{5};
  EXPECT_EQ(in_fork([&] { return std::to_integer<int>(mapping.data()[3]); }), 5);
}

TEST(ShmMappingInAFork, MemoryOfPeersReadsAsZerosAndCannotBeChanged) {
  const UniqueFd fd = file_of(2 * kMapped);
  const Mapping own = Mapping::of_file(fd.get(), 0, 2 * kMapped);
  const Mapping peers = Mapping::of_passing_file(fd.get(), kMapped);
  const Mapping more = Mapping::beyond(peers, kMapped, kMapped);
  std::memset(own.data(), 7, 2 * kMapped);
  const int seen = in_fork([&] {
    const int before = std::to_integer<int>(peers.data()[0] | more.data()[0]);
    peers.data()[0] = std::byte{9};
    more.data()[0] = std::byte{9};
    return before;
  });
  EXPECT_EQ(seen, 0);
  EXPECT_EQ(peers.data()[0], std::byte{7});
  EXPECT_EQ(more.data()[0], std::byte{7});
}

// Without memory at the old addresses, something else could come to lie there and be unmapped.
TEST(ShmMappingInAFork, WhatItDestroysIsItsOwn) {
  const UniqueFd fd = file_of(kMapped);
  auto own = std::make_unique<Mapping>(Mapping::of_file(fd.get(), 0, kMapped));
  auto peers = std::make_unique<Mapping>(Mapping::of_passing_file(fd.get(), kMapped));
  own->data()[0] = std::byte{3};
  EXPECT_EQ(in_fork([&] {
              std::vector<void*> others;
              for (int i = 0; i < 100; ++i) {
                void* at = ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                std::memset(at, 1, kMapped);
                others.push_back(at);
              }
              own.reset();
              peers.reset();
              int sum = 0;
              for (const void* other : others) {
                sum += static_cast<const char*>(other)[kMapped - 1];
              }
              return sum;
            }),
            100);
  EXPECT_EQ(own->data()[0], std::byte{3});
}

TEST(ShmMappingInAFork, AForkOfTheForkHasWhatTheForkWrote) {
  const UniqueFd fd = file_of(kMapped);
  const Mapping mapping = Mapping::of_file(fd.get(), 0, kMapped);
  mapping.data()[0] = std::byte{1};
  EXPECT_EQ(in_fork([&] {
              mapping.data()[0] = std::byte{2};
              const int grandchild = in_fork([&] {
                const int seen = std::to_integer<int>(mapping.data()[0]);
                mapping.data()[0] = std::byte{3};
                return seen;
              });
              return grandchild * 10 + std::to_integer<int>(mapping.data()[0]);
            }),
            22);
  EXPECT_EQ(mapping.data()[0], std::byte{1});
}

TEST(ShmMappingInAFork, ADescriptorThatIsGoneLeavesZeros) {
  UniqueFd fd = file_of(kMapped);
  const Mapping mapping = Mapping::of_file(fd.get(), 0, kMapped);
  mapping.data()[0] = std::byte{1};
  fd.reset();
  EXPECT_EQ(in_fork([&] { return std::to_integer<int>(mapping.data()[0]); }), 0);
  EXPECT_EQ(mapping.data()[0], std::byte{1});
}

// A fork in the middle of another thread's mapping would find a list half written.
TEST(ShmMappingInAFork, WhileOtherThreadsMapAndUnmap) {
  const UniqueFd fd = file_of(kMapped);
  const Mapping kept = Mapping::of_file(fd.get(), 0, kMapped);
  kept.data()[0] = std::byte{7};
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) {
      const Mapping mapping = Mapping::of_file(fd.get(), 0, kMapped);
      std::vector<Mapping> many;
      for (int i = 0; i < 5; ++i) {
        many.push_back(Mapping::beyond(mapping, kMapped, kMapped));
      }
    }
  });
  int seen = 7;
  for (int i = 0; i < 50 && seen == 7; ++i) {
    seen = in_fork([&] {
      kept.data()[0] = std::byte{9};
      const Mapping another = Mapping::of_file(fd.get(), 0, kMapped);
      return std::to_integer<int>(another.data()[0]);
    });
  }
  EXPECT_EQ(seen, 7);
  over = true;
  other.join();
}

}  // namespace
}  // namespace lockstep::shm
