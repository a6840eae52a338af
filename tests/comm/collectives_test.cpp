#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Collectives : public ::testing::TestWithParam<const char*> {
 protected:
  static void on_ranks(int world_size, const std::function<void(Group&)>& body) {
    testing::run_ranks(world_size, body, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, Collectives, ::testing::ValuesIn(testing::backends()),
                         [](const auto& backend) { return std::string(backend.param); });

at::Tensor ints(std::int64_t value, std::int64_t count = 3) {
  return at::full({count}, value, at::kLong);
}

TEST_P(Collectives, AllReduceKnowsEveryOperation) {
  on_ranks(3, [](Group& world) {
    const auto reduced = [&](ReduceOp op) {
      auto tensor = ints(world.rank() + 1);  // 1, 2, 3
      world.all_reduce(tensor, {.op = op}).wait();
      return tensor[2].item<std::int64_t>();
    };
    EXPECT_EQ(reduced(ReduceOp::kSum), 6);
    EXPECT_EQ(reduced(ReduceOp::kAvg), 2);
    EXPECT_EQ(reduced(ReduceOp::kProduct), 6);
    EXPECT_EQ(reduced(ReduceOp::kMin), 1);
    EXPECT_EQ(reduced(ReduceOp::kMax), 3);
    EXPECT_EQ(reduced(ReduceOp::kBand), 0);
    EXPECT_EQ(reduced(ReduceOp::kBor), 3);
    EXPECT_EQ(reduced(ReduceOp::kBxor), 0);
  });
}

TEST_P(Collectives, AllReduceSumsAndAveragesEveryDtype) {
  on_ranks(2, [](Group& world) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar,
                             at::kByte, at::kShort, at::kInt, at::kLong, at::kComplexFloat}) {
      const auto sum = at::full({5}, world.rank() + 1, dtype);
      const auto average = at::full({5}, 2 * world.rank() + 2, dtype);
      world.all_reduce(sum).wait();
      world.all_reduce(average, {.op = ReduceOp::kAvg}).wait();
      EXPECT_TRUE(sum.equal(at::full({5}, 3, dtype))) << c10::toString(dtype);
      EXPECT_TRUE(average.equal(at::full({5}, 3, dtype))) << c10::toString(dtype);
    }
  });
}

TEST_P(Collectives, AllReduceIntegerAveragesRoundTowardsZero) {
  on_ranks(2, [](Group& world) {
    auto tensor = ints(world.rank() == 0 ? -3 : 0);
    world.all_reduce(tensor, {.op = ReduceOp::kAvg}).wait();
    EXPECT_EQ(tensor[0].item<std::int64_t>(), -1);
  });
}

TEST_P(Collectives, AllReduceTakesEmptyAndNonContiguousTensors) {
  on_ranks(2, [](Group& world) {
    world.all_reduce(at::zeros({0})).wait();
    const auto whole = at::full({4, 6}, 1.0);
    const auto columns = whole.slice(1, 0, 6, 2);
    world.all_reduce(columns).wait();
    EXPECT_EQ(columns.sum().item<double>(), 24);
    EXPECT_EQ(whole.sum().item<double>(), 36);  // The columns between are untouched.
    const auto row = at::full({1, 6}, world.rank() + 5.0).slice(1, 0, 6, 2);
    world.broadcast(row, 1).wait();
    EXPECT_EQ(row.sum().item<double>(), 18);
    const auto many = at::full({4, 6}, -1.0);
    world.all_gather({many.slice(1, 0, 6, 2), many.slice(1, 1, 6, 2)}, columns).wait();
    EXPECT_EQ(many.sum().item<double>(), 48);
  });
}

TEST_P(Collectives, AllReduceManyWorksRunAtOnceAndMayBeAwaitedInAnyOrder) {
  on_ranks(2, [](Group& world) {
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 50; ++i) {
      tensors.push_back(ints(i));
      works.push_back(world.all_reduce(tensors.back()));
    }
    for (int i = 49; i >= 0; --i) {
      works[static_cast<std::size_t>(i)].wait();
      EXPECT_EQ(tensors[static_cast<std::size_t>(i)][0].item<std::int64_t>(), 2 * i);
    }
  });
}

TEST_P(Collectives, BroadcastGivesEveryRankTheRootsTensor) {
  on_ranks(3, [](Group& world) {
    auto tensor = ints(world.rank());
    world.broadcast(tensor, 2).wait();
    EXPECT_EQ(tensor[0].item<std::int64_t>(), 2);
  });
}

TEST_P(Collectives, ReduceGivesTheRootTheResult) {
  on_ranks(3, [](Group& world) {
    auto tensor = ints(world.rank() + 1);
    auto average = ints(3 * world.rank());
    world.reduce(tensor, 1).wait();
    world.reduce(average, 1, {.op = ReduceOp::kAvg}).wait();
    if (world.rank() == 1) {
      EXPECT_EQ(tensor[0].item<std::int64_t>(), 6);
      EXPECT_EQ(average[0].item<std::int64_t>(), 3);
    }
  });
}

TEST_P(Collectives, AllGatherCollectsEqualAndUnequalShapes) {
  on_ranks(3, [](Group& world) {
    for (const bool unequal : {false, true}) {
      std::vector<at::Tensor> outputs;
      for (int rank = 0; rank < 3; ++rank) {
        outputs.push_back(at::empty({unequal ? rank : 2, 2}, at::kLong));  // Rank 0 has nothing.
      }
      const auto rows = unequal ? world.rank() : 2;
      world.all_gather(outputs, at::full({rows, 2}, world.rank(), at::kLong)).wait();
      for (int rank = 0; rank < 3; ++rank) {
        EXPECT_TRUE(outputs[static_cast<std::size_t>(rank)].equal(
            at::full({unequal ? rank : 2, 2}, rank, at::kLong)));
      }
    }
  });
}

TEST_P(Collectives, GatherAndScatterMoveOneTensorPerRank) {
  on_ranks(3, [](Group& world) {
    const bool root = world.rank() == 2;
    std::vector<at::Tensor> many;
    if (root) {
      many = {ints(0), ints(0), ints(0)};
    }
    world.gather(many, ints(10 * world.rank()), 2).wait();
    auto output = ints(-1);
    world.scatter(output, many, 2).wait();
    EXPECT_EQ(output[0].item<std::int64_t>(), 10 * world.rank());
  });
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsPart) {
  on_ranks(3, [](Group& world) {
    std::vector<at::Tensor> inputs;
    for (int rank = 0; rank < 3; ++rank) {
      inputs.push_back(ints(rank + world.rank(), rank + 1));  // Unequal sizes.
    }
    auto output = ints(-1, world.rank() + 1);
    world.reduce_scatter(output, inputs).wait();
    EXPECT_TRUE(output.equal(ints(3 * world.rank() + 3, world.rank() + 1)));
    world.reduce_scatter(output, inputs, {.op = ReduceOp::kAvg}).wait();
    EXPECT_TRUE(output.equal(ints(world.rank() + 1, world.rank() + 1)));
  });
}

TEST_P(Collectives, AllToAllExchangesUnequalPieces) {
  on_ranks(3, [](Group& world) {
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs;
    for (int peer = 0; peer < 3; ++peer) {
      inputs.push_back(ints(10 * world.rank() + peer, world.rank() + peer));
      outputs.push_back(ints(-1, world.rank() + peer));
    }
    world.all_to_all(outputs, inputs).wait();
    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_TRUE(outputs[static_cast<std::size_t>(peer)].equal(
          ints(10 * peer + world.rank(), world.rank() + peer)));
    }
  });
}

// Rank 0's call cannot work and is refused there alone; the others wait for the right one.
TEST_P(Collectives, ARefusedOutputCostsTheGroupNothing) {
  on_ranks(2, [](Group& world) {
    const int me = world.rank();
    const auto refused = [&](const std::function<Work()>& call) {
      if (me == 0) {
        EXPECT_THROW((void)call(), UsageError);
      }
    };
    const auto one_place = ints(0, 1).expand({3});
    const auto shared = ints(0);
    const auto good = [] { return ints(0); };
    const std::vector<at::Tensor> given{ints(me + 1), ints(me + 3)};
    const auto expect = [&](const at::Tensor& tensor, std::int64_t value) {
      EXPECT_TRUE(tensor.equal(ints(value))) << "rank " << me << ": " << tensor;
    };

    refused([&] { return world.all_reduce(one_place); });
    auto sum = ints(me + 1);
    world.all_reduce(sum).wait();
    expect(sum, 3);

    refused([&] { return world.broadcast(one_place, 1); });
    auto sent = me == 1 ? ints(5, 1).expand({3}) : good();  // The root only reads.
    world.broadcast(sent, 1).wait();
    expect(sent, 5);

    refused([&] { return world.reduce(one_place, 0); });
    auto reduced = me == 1 ? ints(5, 1).expand({3}) : ints(1);
    world.reduce(reduced, 0).wait();
    expect(reduced, me == 0 ? 6 : 5);

    std::vector<at::Tensor> outputs{good(), good()};
    refused([&] { return world.all_gather({shared, shared}, given[0]); });
    refused([&] { return world.all_gather({good(), one_place}, given[0]); });
    world.all_gather(outputs, ints(me + 1, 1).expand({3})).wait();
    expect(outputs[1], 2);

    refused([&] { return world.gather({shared, shared}, given[0], 0); });
    world.gather(me == 0 ? outputs : std::vector<at::Tensor>(), given[0], 0).wait();
    expect(outputs[0], 1);

    auto part = good();
    refused([&] { return world.scatter(one_place, {}, 1); });
    world.scatter(part, me == 1 ? given : std::vector<at::Tensor>(), 1).wait();
    expect(part, me == 0 ? 2 : 4);

    refused([&] { return world.reduce_scatter(one_place, given); });
    world.reduce_scatter(part, given).wait();
    expect(part, me == 0 ? 3 : 7);

    refused([&] { return world.all_to_all({shared, shared}, given); });
    refused([&] { return world.all_to_all(given, given); });
    world.all_to_all(outputs, given).wait();
    expect(outputs[1], me == 0 ? 2 : 4);

    refused([&] { return world.recv(one_place, 1); });
    if (me == 0) {
      world.recv(part, 1).wait();
      expect(part, 2);
    } else {
      world.send(given[0], 0).wait();
    }
  });
}

TEST_P(Collectives, ColumnsOfAMatrixAreOutputsOfTheirOwn) {
  on_ranks(2, [](Group& world) {
    const auto matrix = at::zeros({3, 2}, at::kLong);
    world.all_gather(matrix.unbind(1), ints(world.rank() + 1)).wait();
    EXPECT_TRUE(matrix.select(1, 0).equal(ints(1)));
    EXPECT_TRUE(matrix.select(1, 1).equal(ints(2)));
  });
}

TEST_P(Collectives, SendAndRecvMatchByTag) {
  on_ranks(2, [](Group& world) {
    auto first = ints(world.rank() == 0 ? 1 : 0);
    auto second = ints(world.rank() == 0 ? 2 : 0);
    if (world.rank() == 0) {
      auto one = world.send(first, 1, {.tag = 1});
      auto two = world.send(second, 1, {.tag = 2});
      two.wait();
      one.wait();
    } else {
      world.recv(second, 0, {.tag = 2}).wait();
      world.recv(first, 0, {.tag = 1}).wait();
      EXPECT_EQ(first[0].item<std::int64_t>(), 1);
      EXPECT_EQ(second[0].item<std::int64_t>(), 2);
    }
  });
}

TEST_P(Collectives, RecvEndsAtItsTimeoutWithThisRanksName) {
  on_ranks(2, [](Group& world) {
    if (world.rank() == 1) {
      auto tensor = ints(0);
      EXPECT_THAT(
          [&] { world.recv(tensor, 0, {.timeout = std::chrono::milliseconds(200)}).wait(); },
          ThrowsMessage<PeerError>(
              AllOf(HasSubstr("recv"), HasSubstr("on rank 1 of 2"), HasSubstr("imed out"))));
    }
    world.store()->set("done/" + std::to_string(world.rank()), "1");
    world.store()->wait({"done/0", "done/1"});  // Rank 0 stays until rank 1 has given up.
  });
}

TEST_P(Collectives, AllReduceEndsAtItsTimeoutWithThisRanksName) {
  on_ranks(2, [](Group& world) {
    if (world.rank() == 1) {
      auto tensor = ints(0);
      EXPECT_THAT(
          [&] { world.all_reduce(tensor, {.timeout = std::chrono::milliseconds(300)}).wait(); },
          ThrowsMessage<PeerError>(AllOf(HasSubstr("all_reduce #1"), HasSubstr("on rank 1 of 2"))));
    } else {
      std::this_thread::sleep_for(std::chrono::seconds(1));  // The straggler.
    }
  });
}

}  // namespace
}  // namespace lockstep
