// Many collectives of several groups at once, in the shape of open-mpi/ompi#11999: each rank has
// two threads, each of them in another group.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <random>

#include "tests/shm/stress.h"

namespace lockstep::shm {
namespace {

using testing::expect_no_lost_wake_up;
using testing::FolderBoard;
using testing::soon;
using testing::stress_count;
using testing::stress_options;
using testing::stress_processes;
using testing::stress_threads;

constexpr Fold kSumOfInts{.reduction = {DType::kInt32, ReduceOp::kSum}};

// Each rank is in two of them.
constexpr int kStressRanks = 6;
const std::vector<std::vector<int>> kGroups{{0, 1, 2, 3}, {2, 3, 4, 5}, {4, 5, 0, 1}};

// Collectives of one group.
int per_group() { return std::max(stress_count() / static_cast<int>(kGroups.size()), 1); }

// What the members agree on without talking: how many elements, and whose lie in the arena.
struct Round {
  std::size_t count = 1;
  std::vector<bool> placed;
};
Round draw(std::mt19937& random, int members) {
  Round round;
  if (random() % 4 == 0) {
    const std::array<unsigned, 4> limits{16, 300, 2000, 10000};
    round.count = random() % limits[random() % limits.size()];
  }
  const unsigned way = random() % 4;  // Nobody twice, everybody, some.
  for (int member = 0; member < members; ++member) {
    round.placed.push_back(way == 2 || (way == 3 && random() % 2 == 0));
  }
  return round;
}

std::int32_t value_of(int member, int round, std::size_t at) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(member + 1) * 1000003U +
                                   static_cast<std::uint32_t>(round) * 31U +
                                   static_cast<std::uint32_t>(at) * 7U);
}
std::int32_t sum_of(int members, int round, std::size_t at) {
  std::uint32_t sum = 0;
  for (int member = 0; member < members; ++member) {
    sum += static_cast<std::uint32_t>(value_of(member, round, at));
  }
  return static_cast<std::int32_t>(sum);
}

void run(Team& team, unsigned group) {
  std::mt19937 random(group);
  std::vector<std::int32_t> own;
  for (int i = 0; i < per_group(); ++i) {
    const Round round = draw(random, team.size());
    own.resize(round.count);
    const std::size_t bytes = round.count * sizeof(std::int32_t);
    const bool placed = round.placed[static_cast<std::size_t>(team.rank())];
    const auto piece = placed ? allocate(team.memory(), team.rank(), bytes) : nullptr;
    auto* data = placed ? reinterpret_cast<std::int32_t*>(piece.get()) : own.data();
    for (std::size_t at = 0; at < round.count; ++at) {
      data[at] = value_of(team.rank(), i, at);
    }
    all_reduce(team, {reinterpret_cast<std::byte*>(data), round.count}, kSumOfInts, soon());
    for (std::size_t at = 0; at < round.count; ++at) {
      ASSERT_EQ(data[at], sum_of(team.size(), i, at))
          << "group " << group << ", rank " << team.rank() << ", collective " << i << ", element "
          << at << " of " << round.count;
    }
  }
  expect_no_lost_wake_up(team);
}

TEST(ShmStress, ThreadsOfOverlappingGroupsGetTheirSums) {
  std::vector<std::vector<std::unique_ptr<Team>>> teams;
  std::vector<std::thread> threads;
  for (const auto& group : kGroups) {
    teams.push_back(Team::in_process(static_cast<int>(group.size()), stress_options()));
  }
  for (unsigned group = 0; group < teams.size(); ++group) {
    for (const auto& team : teams[group]) {
      threads.emplace_back([&team, group] { EXPECT_NO_THROW(run(*team, group)); });
    }
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

// One rank: a thread for each of its groups.
void run_rank(int rank, std::vector<FolderBoard>& boards) {
  std::vector<std::thread> threads;
  for (unsigned group = 0; group < kGroups.size(); ++group) {
    const auto& members = kGroups[group];
    const auto place = std::find(members.begin(), members.end(), rank);
    if (place != members.end()) {
      threads.emplace_back([&, place, group] {
        EXPECT_NO_THROW({
          const auto team =
              Team::join(static_cast<int>(place - members.begin()),
                         static_cast<int>(members.size()), boards[group], soon(), stress_options());
          run(*team, group);
        });
      });
    }
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

TEST(ShmStress, ProcessesOfOverlappingGroupsGetTheirSums) {
  std::vector<FolderBoard> boards(kGroups.size());
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (int rank = 0; rank < kStressRanks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      run_rank(rank, boards);
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

// All kinds after each other, of sizes below and above a chunk, with every value checked: what
// shows that two staging buffers are enough.
void mix(Team& team, unsigned seed, int rounds) {
  std::mt19937 random(seed);  // The same on all ranks.
  const auto n = static_cast<std::size_t>(team.size());
  const auto value = [](std::size_t rank, int round, std::size_t i) {
    return static_cast<std::int32_t>((rank + 1) * 1000003 + static_cast<std::size_t>(round) * 31 +
                                     i * 7);
  };
  for (int round = 0; round < rounds; ++round) {
    const std::size_t count = random() % (random() % 2 == 0 ? 20 : 2500);
    const auto kind = random() % 4;
    const auto placed = random() % 3;  // Nobody, everybody, or every other rank.
    const int root = static_cast<int>(random() % n);
    const auto me = static_cast<std::size_t>(team.rank());
    const auto piece = allocate(team.memory(), team.rank(), count * 4);
    std::vector<std::int32_t> own(count);
    const bool in_arena = placed == 1 || (placed == 2 && me % 2 == 0);
    auto* data = in_arena ? reinterpret_cast<std::int32_t*>(piece.get()) : own.data();
    for (std::size_t i = 0; i < count; ++i) {
      data[i] = value(me, round, i);
    }
    const Tensor tensor{reinterpret_cast<std::byte*>(data), count};
    if (kind == 0) {
      all_reduce(team, tensor, {.reduction = {DType::kInt32, ReduceOp::kSum}}, soon());
    } else if (kind == 1) {
      broadcast(team, tensor, DType::kInt32, root, soon());
    } else if (kind == 2) {
      reduce(team, tensor, {.reduction = {DType::kInt32, ReduceOp::kSum}}, root, soon());
    } else {
      std::vector<std::vector<std::int32_t>> all(n, std::vector<std::int32_t>(count));
      std::vector<Output> outputs;
      for (auto& part : all) {
        outputs.push_back(testing::output_of(part));
      }
      all_gather(team, outputs, {tensor.data, count * 4}, DType::kInt32, soon());
      for (std::size_t rank = 0; rank < n; ++rank) {
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(all[rank][i], value(rank, round, i));
        }
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t sum = 0;
      for (std::size_t rank = 0; rank < n; ++rank) {
        sum += static_cast<std::uint32_t>(value(rank, round, i));
      }
      const bool summed = kind == 0 || (kind == 2 && team.rank() == root);
      ASSERT_EQ(data[i], summed      ? static_cast<std::int32_t>(sum)
                         : kind == 1 ? value(static_cast<std::size_t>(root), round, i)
                                     : value(me, round, i))
          << "kind " << kind << ", round " << round;
    }
  }
}

TEST(ShmStress, MixedCollectivesKeepTheirValuesOnThreads) {
  for (const int size : {2, 3, 4}) {
    stress_threads(size, [](Team& team) { mix(team, 5, 300); });
  }
}

TEST(ShmStress, MixedCollectivesKeepTheirValuesInProcesses) {
  for (const int size : {2, 4}) {
    stress_processes(size, [](Team& team) { mix(team, 7, 1000); });
  }
}

}  // namespace
}  // namespace lockstep::shm
