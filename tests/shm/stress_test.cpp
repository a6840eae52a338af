// Many collectives of several groups at once, in the shape of open-mpi/ompi#11999: each rank has
// two threads, each of them in another group. LOCKSTEP_STRESS_COUNT makes a soak of it.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>

#include "lockstep/shm/collectives/mailbox.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using testing::FolderBoard;
using testing::small_options;
using testing::soon;

// Sleepers look again every 50 ms, which would hide a wake-up that was lost: each one is counted.
TeamOptions stress_options() {
  auto options = small_options();
  options.bell_patience = std::chrono::seconds(20);
  return options;
}
void expect_no_lost_wake_up(Team& team) {
  EXPECT_EQ(team.watch().missed_bells(), 0U) << "rank " << team.rank();
}
void stress_threads(int size, const testing::Body& body) {
  testing::on_threads(
      size,
      [&](Team& team) {
        body(team);
        expect_no_lost_wake_up(team);
      },
      stress_options());
}
void stress_processes(int size, const testing::Body& body) {
  testing::on_processes(
      size,
      [&](Team& team) {
        body(team);
        expect_no_lost_wake_up(team);
      },
      stress_options());
}

constexpr Fold kSumOfInts{.reduction = {DType::kInt32, ReduceOp::kSum}};

// Each rank is in two of them.
constexpr int kStressRanks = 6;
const std::vector<std::vector<int>> kGroups{{0, 1, 2, 3}, {2, 3, 4, 5}, {4, 5, 0, 1}};

// Collectives of all groups together.
int total() {
  const char* text = std::getenv("LOCKSTEP_STRESS_COUNT");
  return text != nullptr ? std::atoi(text) : 3000;
}
int per_group() { return std::max(total() / static_cast<int>(kGroups.size()), 1); }

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

void send_number(Mailbox& mailbox, std::uint64_t tag, int number) {
  mailbox.send(1, tag, reinterpret_cast<const std::byte*>(&number), sizeof number);
}
int receive_number(Mailbox& mailbox, std::uint64_t tag) {
  int number = -1;
  const auto receipt = mailbox.post({.source = 0,
                                     .tag = tag,
                                     .data = reinterpret_cast<std::byte*>(&number),
                                     .bytes = sizeof number});
  const auto deadline = soon();
  while (!mailbox.is_done(*receipt) && !deadline.passed()) {
  }
  return number;
}

// The receiver looks all the time, and letters are freed and used again while it does; now and then
// it lets some lie, so that they come in another order than they are taken.
void keep_order(Team& team) {
  Mailbox mailbox(team);
  for (int i = 0; i < 10 * total(); i += 10) {
    if (team.rank() == 0) {
      for (int k = 0; k < 10; ++k) {
        send_number(mailbox, static_cast<std::uint64_t>(k % 2), i + k);
      }
      if (i % 1000 == 0) {
        barrier(team, soon());  // Not too far ahead.
      }
      continue;
    }
    if (i % 1000 == 0) {
      barrier(team, soon());
    }
    for (const int tag : {1, 0}) {
      for (int k = tag; k < 10; k += 2) {
        ASSERT_EQ(receive_number(mailbox, static_cast<std::uint64_t>(tag)), i + k);
      }
    }
  }
  barrier(team, soon());
}

TEST(ShmStress, MessagesBetweenThreadsKeepTheirOrder) { stress_threads(2, keep_order); }
TEST(ShmStress, MessagesBetweenProcessesKeepTheirOrder) { stress_processes(2, keep_order); }

// Each message finds a receiver that sleeps, or is about to.
void take_turns(Team& team) {
  Mailbox mailbox(team);
  const int other = 1 - team.rank();
  for (int i = 0; i < total(); ++i) {
    int got = -1;
    const auto receipt = mailbox.post(
        {.source = other, .data = reinterpret_cast<std::byte*>(&got), .bytes = sizeof got});
    if (i % 2 == team.rank()) {
      mailbox.send(other, 0, reinterpret_cast<const std::byte*>(&i), sizeof i);
    }
    mailbox.wait(*receipt, soon());
    ASSERT_EQ(got, i);
    if (i % 2 != team.rank()) {
      mailbox.send(other, 0, reinterpret_cast<const std::byte*>(&i), sizeof i);
    }
  }
  barrier(team, soon());
}

TEST(ShmStress, MessagesWakeTheirReceiverOnThreads) { stress_threads(2, take_turns); }
TEST(ShmStress, MessagesWakeTheirReceiverInProcesses) { stress_processes(2, take_turns); }

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
