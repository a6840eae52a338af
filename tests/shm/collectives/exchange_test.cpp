#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/shm/teams.h"

namespace lockstep::shm {
namespace {

using testing::input_of;
using testing::on_processes;
using testing::on_threads;
using testing::output_of;
using testing::pattern;
using testing::soon;
using testing::tensor_of;

using Bytes = std::vector<std::uint8_t>;

const std::vector<std::size_t> kSizes{0, 1, 100, 4095, 4096, 4097, 30000};

class ShmExchange : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ShmExchange, ::testing::Values(1, 2, 3, 5));

TEST_P(ShmExchange, BroadcastCopiesTheRoot) {
  on_threads(GetParam(), [](Team& team) {
    for (const auto size : kSizes) {
      for (int root = 0; root < team.size(); ++root) {
        auto values = pattern<std::uint8_t>(team.rank(), size);
        broadcast(team, tensor_of(values), DType::kUInt8, root, soon());
        ASSERT_EQ(values, pattern<std::uint8_t>(root, size));
      }
    }
  });
}

TEST_P(ShmExchange, AllGatherCollectsUnequalSizes) {
  on_threads(GetParam(), [](Team& team) {
    for (const auto size : kSizes) {
      const auto size_of_rank = [&](int rank) { return size * static_cast<std::size_t>(rank % 3); };
      std::vector<Bytes> results;
      std::vector<Output> outputs;
      for (int rank = 0; rank < team.size(); ++rank) {
        results.emplace_back(size_of_rank(rank));
      }
      for (auto& result : results) {
        outputs.push_back(output_of(result));
      }
      const auto mine = pattern<std::uint8_t>(team.rank(), size_of_rank(team.rank()));
      all_gather(team, outputs, input_of(mine), DType::kUInt8, soon());
      for (int rank = 0; rank < team.size(); ++rank) {
        ASSERT_EQ(results[static_cast<std::size_t>(rank)],
                  pattern<std::uint8_t>(rank, size_of_rank(rank)));
      }
    }
  });
}

TEST_P(ShmExchange, GatherAndScatterAreInverse) {
  on_threads(GetParam(), [](Team& team) {
    const int root = team.size() - 1;
    for (const auto size : kSizes) {
      std::vector<Bytes> parts(team.rank() == root ? static_cast<std::size_t>(team.size()) : 0,
                               Bytes(size));
      std::vector<Output> outputs;
      std::vector<Input> inputs;
      for (auto& part : parts) {
        outputs.push_back(output_of(part));
        inputs.push_back(input_of(part));
      }
      const auto mine = pattern<std::uint8_t>(team.rank(), size);
      gather(team, outputs, input_of(mine), DType::kUInt8, root, soon());
      for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        ASSERT_EQ(parts[rank], pattern<std::uint8_t>(static_cast<int>(rank), size));
      }
      Bytes back(size);
      scatter(team, output_of(back), inputs, DType::kUInt8, root, soon());
      ASSERT_EQ(back, mine);
    }
  });
}

TEST_P(ShmExchange, AllToAllWithUnequalSizes) {
  on_threads(GetParam(), [](Team& team) {
    for (const auto size : kSizes) {
      // What `from` gives to `to`.
      const auto message = [&](int from, int to) {
        return pattern<std::uint8_t>(from * 10 + to,
                                     size * static_cast<std::size_t>((from + to) % 3));
      };
      std::vector<Bytes> given;
      std::vector<Bytes> taken;
      for (int rank = 0; rank < team.size(); ++rank) {
        given.push_back(message(team.rank(), rank));
        taken.emplace_back(message(rank, team.rank()).size());
      }
      std::vector<Input> inputs;
      std::vector<Output> outputs;
      for (std::size_t i = 0; i < given.size(); ++i) {
        inputs.push_back(input_of(given[i]));
        outputs.push_back(output_of(taken[i]));
      }
      all_to_all(team, outputs, inputs, DType::kUInt8, soon());
      for (int rank = 0; rank < team.size(); ++rank) {
        ASSERT_EQ(taken[static_cast<std::size_t>(rank)], message(rank, team.rank()));
      }
    }
  });
}

TEST(ShmExchange, SizesThatDoNotFitAreAnErrorOnAllRanks) {
  on_processes(3, [](Team& team) {
    Bytes own(team.rank() == 1 ? 20 : 10);
    std::vector<Bytes> results(3, Bytes(10));
    std::vector<Output> outputs{output_of(results[0]), output_of(results[1]),
                                output_of(results[2])};
    if (team.rank() == 1) {
      results[1].resize(20);
      outputs[1] = output_of(results[1]);
    }
    EXPECT_THAT([&] { all_gather(team, outputs, input_of(own), DType::kUInt8, soon()); },
                ::testing::ThrowsMessage<PeerError>(::testing::ContainsRegex(
                    "rank 1 .* has 20 bytes for rank 0 .*, which expects 10")));
  });
}

TEST(ShmBarrier, NobodyLeavesBeforeAllHaveCome) {
  std::atomic<int> arrived{0};
  on_threads(4, [&](Team& team) {
    for (int round = 1; round <= 100; ++round) {
      ++arrived;
      barrier(team, soon());
      EXPECT_GE(arrived.load(), round * team.size());
      barrier(team, soon());
    }
  });
}

}  // namespace
}  // namespace lockstep::shm
