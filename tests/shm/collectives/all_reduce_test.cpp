#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "lockstep/base/error.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using testing::input_of;
using testing::on_processes;
using testing::on_threads;
using testing::pattern;
using testing::soon;
using testing::tensor_of;

constexpr Fold kSumOfInt32{.reduction = {DType::kInt32, ReduceOp::kSum}};

std::vector<std::int32_t> sum_of_patterns(int ranks, std::size_t count) {
  std::vector<std::int32_t> sum(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto values = pattern<std::int32_t>(rank, count);
    for (std::size_t i = 0; i < count; ++i) {
      sum[i] += values[i];
    }
  }
  return sum;
}

// Below, at and above the limits of a cache line, a slice, a chunk and several of them.
const std::vector<std::size_t> kCounts{0, 1, 3, 16, 17, 1000, 1023, 1024, 1025, 4096, 5000, 20000};

struct World {
  int ranks;
  bool processes;
};

class ShmAllReduce : public ::testing::TestWithParam<World> {
 protected:
  static void on_ranks(const testing::Body& body) {
    const auto world = GetParam();
    world.processes ? on_processes(world.ranks, body) : on_threads(world.ranks, body);
  }
};

INSTANTIATE_TEST_SUITE_P(Worlds, ShmAllReduce,
                         ::testing::Values(World{1, false}, World{2, false}, World{3, false},
                                           World{4, false}, World{8, false}, World{2, true},
                                           World{3, true}, World{8, true}),
                         [](const auto& world) {
                           return std::to_string(world.param.ranks) +
                                  (world.param.processes ? "Processes" : "Threads");
                         });

TEST_P(ShmAllReduce, SumsStagedTensorsOfAnySize) {
  on_ranks([](Team& team) {
    for (int round = 0; round < 3; ++round) {
      for (const auto count : kCounts) {
        auto values = pattern<std::int32_t>(team.rank(), count);
        all_reduce(team, tensor_of(values), kSumOfInt32, soon());
        ASSERT_EQ(values, sum_of_patterns(team.size(), count)) << count;
      }
    }
  });
}

TEST_P(ShmAllReduce, SumsTensorsOfTheArenaInPlace) {
  on_ranks([](Team& team) {
    for (const auto count : kCounts) {
      const auto memory = allocate(team.memory(), team.rank(), count * 4);
      const auto values = pattern<std::int32_t>(team.rank(), count);
      std::copy_n(input_of(values).data, count * 4, memory.get());
      all_reduce(team, {memory.get(), count}, kSumOfInt32, soon());
      const auto expected = sum_of_patterns(team.size(), count);
      ASSERT_TRUE(std::equal(memory.get(), memory.get() + count * 4, input_of(expected).data))
          << count;
    }
  });
}

TEST_P(ShmAllReduce, SumsWhereOnlySomeRanksAreInTheArena) {
  on_ranks([](Team& team) {
    for (const auto count : kCounts) {
      auto values = pattern<std::int32_t>(team.rank(), count);
      const auto memory = allocate(team.memory(), team.rank(), count * 4);
      std::copy_n(input_of(values).data, count * 4, memory.get());
      const bool placed = team.rank() % 2 == 1;
      std::byte* data = placed ? memory.get() : tensor_of(values).data;
      all_reduce(team, {data, count}, kSumOfInt32, soon());
      const auto expected = sum_of_patterns(team.size(), count);
      ASSERT_TRUE(std::equal(data, data + count * 4, input_of(expected).data)) << count;
    }
  });
}

TEST_P(ShmAllReduce, ReduceChangesTheRootAlone) {
  on_ranks([](Team& team) {
    for (const auto count : kCounts) {
      for (int root = 0; root < team.size(); ++root) {
        auto values = pattern<std::int32_t>(team.rank(), count);
        reduce(team, tensor_of(values), kSumOfInt32, root, soon());
        ASSERT_EQ(values, team.rank() == root ? sum_of_patterns(team.size(), count)
                                              : pattern<std::int32_t>(team.rank(), count))
            << count << " to " << root;
      }
    }
  });
}

// The order of summation is the order of ranks, for each element and every way to get there.
std::vector<float> uneven_floats(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::vector<float> values(count);
  for (auto& value : values) {
    value =
        std::ldexp(static_cast<float>(random() % 2001) - 1000.0F, static_cast<int>(random() % 40));
  }
  return values;
}

TEST_P(ShmAllReduce, FoldsInTheOrderOfRanks) {
  on_ranks([](Team& team) {
    for (const std::size_t count : {7UL, 5000UL, 30000UL}) {
      auto expected = uneven_floats(0, count);
      for (int rank = 1; rank < team.size(); ++rank) {
        const auto values = uneven_floats(rank, count);
        for (std::size_t i = 0; i < count; ++i) {
          expected[i] += values[i];
        }
      }
      for (const bool placed : {false, true}) {
        auto values = uneven_floats(team.rank(), count);
        const auto memory = allocate(team.memory(), team.rank(), count * 4);
        std::copy_n(input_of(values).data, count * 4, memory.get());
        std::byte* data = placed ? memory.get() : tensor_of(values).data;
        all_reduce(team, {data, count}, {.reduction = {DType::kFloat, ReduceOp::kSum}}, soon());
        ASSERT_TRUE(std::equal(data, data + count * 4, input_of(expected).data)) << count << placed;
      }
    }
  });
}

TEST_P(ShmAllReduce, RanksWithAFactorAndRanksWithoutSumTogether) {
  on_ranks([](Team& team) {
    for (const std::size_t count : {5UL, 60000UL}) {
      std::vector<float> values(count, 3.0F);
      const bool factor = team.rank() == 1;
      all_reduce(team, tensor_of(values),
                 {.reduction = {DType::kFloat, factor ? ReduceOp::kPremulSum : ReduceOp::kSum},
                  .factor = factor ? 0.5 : 1},
                 soon());
      const auto expected = 3.0F * static_cast<float>(team.size()) - (team.size() > 1 ? 1.5F : 0);
      ASSERT_THAT(values, ::testing::Each(expected));
    }
  });
}

TEST_P(ShmAllReduce, EachRankHasItsOwnFactor) {
  on_ranks([](Team& team) {
    for (const std::size_t count : {5UL, 6000UL}) {
      std::vector<double> values(count, 2.0);
      all_reduce(team, tensor_of(values),
                 {.reduction = {DType::kDouble, ReduceOp::kPremulSum},
                  .factor = static_cast<double>(team.rank() + 1)},
                 soon());
      const double expected = 2.0 * team.size() * (team.size() + 1) / 2;
      ASSERT_THAT(values, ::testing::Each(expected));
    }
  });
}

}  // namespace
}  // namespace lockstep::shm
