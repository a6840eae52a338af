// Groups of real processes under limits of the machine: address space, and memory of a cgroup.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"
#include "lockstep/shm/segments/host_lock.h"
#include "tests/shm/memory_cgroup.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using testing::FolderBoard;
using testing::MemoryCgroup;
using testing::soon;

constexpr std::size_t kMiBytes = std::size_t{1} << 20;
constexpr std::size_t kGiBytes = std::size_t{1} << 30;
constexpr Fold kIntegers{.reduction = {DType::kInt32, ReduceOp::kSum}};

// The board of one of many groups.
class BoardOf : public Board {
 public:
  BoardOf(Board& all, int group) : all_(all), prefix_(std::to_string(group) + "/") {}
  void post(const std::string& key, const std::string& text) override {
    all_.post(prefix_ + key, text);
  }
  std::string read(const std::string& key, Deadline deadline) override {
    return all_.read(prefix_ + key, deadline);
  }

 private:
  Board& all_;
  std::string prefix_;
};

// Runs `body` in a process for each rank and returns their exit statuses.
std::vector<int> statuses_of(int ranks, const std::function<int(int)>& body) {
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(::fork());
    if (children.back() == 0) {
      int code = 1;
      try {
        code = body(rank);
      } catch (const std::exception& error) {
        std::cerr << "rank " << rank << ": " << error.what() << '\n';
      }
      std::fflush(nullptr);
      ::_exit(code);
    }
  }
  std::vector<int> statuses(children.size());
  for (std::size_t i = 0; i < children.size(); ++i) {
    ::waitpid(children[i], &statuses[i], 0);
  }
  return statuses;
}

// `ulimit -v`. A sanitizer has taken terabytes before the first line of a program.
void limit_address_space(std::size_t bytes) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const std::size_t now = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const rlim_t limit = now < bytes ? bytes : now + bytes;
  const rlimit both{.rlim_cur = limit, .rlim_max = limit};
  if (::setrlimit(RLIMIT_AS, &both) != 0) {
    throw std::runtime_error("setrlimit");
  }
}

// The sum over all ranks of a tensor in ordinary memory or in the arena.
bool sums(Team& team, std::size_t count, bool in_arena) {
  std::vector<std::int32_t> own(in_arena ? 0 : count);
  const auto memory = in_arena ? allocate(team.memory(), team.rank(), count * 4) : nullptr;
  auto* values = in_arena ? reinterpret_cast<std::int32_t*>(memory.get()) : own.data();
  std::fill_n(values, count, team.rank() + 1);
  all_reduce(team, {reinterpret_cast<std::byte*>(values), count}, kIntegers, soon());
  return std::all_of(values, values + count, [&](std::int32_t value) {
    return value == team.size() * (team.size() + 1) / 2;
  });
}

TEST(ShmLimits, TwoHundredGroupsOfEightRanksFitInto64GiBOfAddressSpace) {
  constexpr int kGroups = 200;
  constexpr int kMembers = 8;
  FolderBoard board;
  const auto statuses = statuses_of(kMembers, [&](int rank) {
    limit_address_space(64 * kGiBytes);
    std::vector<std::unique_ptr<Team>> teams;
    std::vector<std::shared_ptr<std::byte>> kept;
    bool right = true;
    for (int group = 0; group < kGroups; ++group) {
      BoardOf own(board, group);
      teams.push_back(Team::join(rank, kMembers, own, Deadline::in(std::chrono::minutes(2))));
      right = right && sums(*teams.back(), 1000, false);
      if (group % 10 == 0) {
        kept.push_back(allocate(teams.back()->memory(), rank, 4 * kMiBytes));
        right = right && sums(*teams.back(), 300000, true);
      }
    }
    for (const auto& team : teams) {  // All of them at once.
      right = right && sums(*team, 20000, true);
    }
    return right ? 0 : 2;
  });
  EXPECT_THAT(statuses, ::testing::Each(0));
}

constexpr int kTooLittle = 10;  // IoError that names the limit.
constexpr int kLostPeer = 11;   // PeerError.

// Joins, waits for all, takes memory at the same time as all, then works with it.
int take_together(int rank, int ranks, std::size_t bytes, Board& board) {
  const auto team = Team::join(rank, ranks, board, soon());
  try {
    barrier(*team, soon());
    const auto memory = allocate(team->memory(), rank, bytes);
    std::memset(memory.get(), 1, bytes);
    return sums(*team, 100, false) ? 0 : 2;
  } catch (const IoError& error) {
    const bool named = std::strstr(error.what(), " of shared memory are needed, ") != nullptr &&
                       std::strstr(error.what(), "(limit 1.0 GiB)") != nullptr;
    return named ? kTooLittle : 3;
  } catch (const PeerError&) {
    return kLostPeer;
  }
}

TEST(ShmLimits, RanksThatTogetherTakeMoreThanTheirCgroupHasGetErrorsAndNoneIsKilled) {
  constexpr int kMembers = 4;
  const MemoryCgroup cgroup(kGiBytes);
  if (!cgroup.works()) {
    // What is left without one: that ranks look and take one after the other.
    std::cout << "no memory cgroup can be made here (" << cgroup.why_not()
              << "): only the order of taking is tested, not the limit\n";
    const HostLock lock;
    ASSERT_TRUE(lock.is_held());
    const auto statuses = statuses_of(kMembers, [&](int) {
      const Segment segment = Segment::create(kMiBytes);
      ::alarm(1);  // Ends a rank that waits, as all must.
      segment.back(0, kMiBytes, "test");
      return 0;
    });
    EXPECT_THAT(statuses, ::testing::Each(SIGALRM));
    return;
  }
  for (int round = 0; round < 5; ++round) {
    FolderBoard board;
    const auto statuses = statuses_of(kMembers, [&](int rank) {
      cgroup.enter();
      return take_together(rank, kMembers, 300 * kMiBytes, board);
    });
    int too_little = 0;
    for (const int status : statuses) {
      ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
      const int code = WEXITSTATUS(status);
      EXPECT_TRUE(code == kTooLittle || code == kLostPeer) << code;
      too_little += code == kTooLittle ? 1 : 0;
    }
    EXPECT_GE(too_little, 1);
    EXPECT_EQ(cgroup.kills(), 0);
  }
}

TEST(ShmLimits, RanksThatFitIntoTheirCgroupTakeAllOfItAtTheSameTime) {
  constexpr int kMembers = 4;
  const MemoryCgroup cgroup(kGiBytes);
  if (!cgroup.works()) {
    std::cout << "no memory cgroup can be made here (" << cgroup.why_not()
              << "): the same without a limit\n";
  }
  FolderBoard board;
  const auto statuses = statuses_of(kMembers, [&](int rank) {
    if (cgroup.works()) {
      cgroup.enter();
    }
    return take_together(rank, kMembers, 200 * kMiBytes, board);
  });
  EXPECT_THAT(statuses, ::testing::Each(0));
}

// What the kernel itself needs for the pages must not be missing in the end.
TEST(ShmLimits, WhoTakesAllThatIsFreeGetsAnErrorOrAllOfItAndIsNotKilled) {
  const MemoryCgroup cgroup(kGiBytes / 4);
  if (!cgroup.works()) {
    std::cout << "no memory cgroup can be made here (" << cgroup.why_not()
              << "): not tested, a whole machine is not to be filled\n";
    return;
  }
  for (const std::size_t less : {0, 64, 1024, 4096, 8192, 12288, 13312, 14336, 20480}) {
    const auto statuses = statuses_of(1, [&](int) {
      cgroup.enter();
      Segment segment = Segment::create(0);
      const std::size_t bytes = (free_memory().bytes - less * 1024) / kGranule * kGranule;
      try {
        segment.back(0, bytes, "test");
      } catch (const IoError&) {
        return less < 4096 ? kTooLittle : 0;
      }
      segment.extend(bytes);
      std::memset(segment.data(), 1, bytes);
      return 0;
    });
    EXPECT_EQ(statuses[0], less < 4096 ? kTooLittle << 8 : 0) << less << " KiB less";
    EXPECT_EQ(cgroup.kills(), 0) << less << " KiB less";
  }
}

TEST(ShmLimits, RanksThatTakeAndUseMemoryUntilThereIsNoneGetErrorsAndNoneIsKilled) {
  constexpr int kMembers = 4;
  const MemoryCgroup cgroup(kGiBytes / 2);
  if (!cgroup.works()) {
    std::cout << "no memory cgroup can be made here (" << cgroup.why_not()
              << "): not tested, a whole machine is not to be filled\n";
    return;
  }
  FolderBoard board;
  const auto statuses = statuses_of(kMembers, [&](int rank) {
    cgroup.enter();
    const auto team = Team::join(rank, kMembers, board, soon());
    std::vector<std::shared_ptr<std::byte>> taken;
    barrier(*team, soon());
    try {
      while (true) {
        constexpr std::size_t kBlock = 9 * kMiBytes;
        taken.push_back(allocate(team->memory(), rank, kBlock));
        std::memset(taken.back().get(), 1, kBlock);
        all_reduce(*team, {taken.back().get(), kBlock / 4}, kIntegers, soon());
      }
    } catch (const IoError&) {
      return taken.size() > 5 ? kTooLittle : 3;
    } catch (const PeerError&) {
      return kLostPeer;
    }
  });
  for (const int status : statuses) {
    ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
    EXPECT_TRUE(WEXITSTATUS(status) == kTooLittle || WEXITSTATUS(status) == kLostPeer);
  }
  EXPECT_THAT(statuses, ::testing::Contains(kTooLittle << 8));
  EXPECT_EQ(cgroup.kills(), 0);
}

}  // namespace
}  // namespace lockstep::shm
