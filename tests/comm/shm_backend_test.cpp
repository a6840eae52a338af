#include "lockstep/comm/shm_backend.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <thread>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Tensors = std::vector<at::Tensor>;

void on_ranks(int world_size, const std::function<void(Group&)>& body) {
  lockstep::testing::run_ranks(world_size, body, {.backend = "shm"});
}

c10::intrusive_ptr<c10d::Work> all_reduce(Group& world, const at::Tensor& tensor,
                                          const c10d::ReduceOp& op = c10d::ReduceOp::SUM) {
  Tensors tensors{tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  return world.backend()->allreduce(tensors, options);
}

// A rank's values: the same in every process that asks.
at::Tensor values_of(int rank, at::IntArrayRef shape, at::ScalarType dtype) {
  auto generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  generator.set_current_seed(static_cast<std::uint64_t>(rank) + 1);
  if (dtype == at::kBool) {
    return at::randint(0, 2, shape, generator, at::kLong).to(dtype);
  }
  if (at::isIntegralType(dtype, false)) {
    return at::randint(0, 100, shape, generator, at::kLong).to(dtype);
  }
  return (at::rand(shape, generator, at::kDouble) - 0.5).to(dtype);
}

// The documented order: rank 0, then 1, 2, ...; half types in float, rounded once.
at::Tensor sum_in_rank_order(int ranks, at::IntArrayRef shape, at::ScalarType dtype) {
  const bool half = dtype == at::kHalf || dtype == at::kBFloat16;
  const auto wide = half ? at::kFloat : dtype;
  auto sum = values_of(0, shape, dtype).to(wide);
  for (int rank = 1; rank < ranks; ++rank) {
    sum = sum + values_of(rank, shape, dtype).to(wide);
  }
  return sum.to(dtype);
}

class ShmSum : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ShmSum, ::testing::Values(1, 2, 3, 4));

TEST_P(ShmSum, HasTheBitsOfASumInRankOrderForEveryDtype) {
  on_ranks(GetParam(), [](Group& world) {
    for (const auto dtype :
         {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kComplexFloat, at::kComplexDouble,
          at::kChar, at::kByte, at::kShort, at::kInt, at::kLong}) {
      for (const std::int64_t count : {5, 3000, 100000}) {
        const auto expected = sum_in_rank_order(world.size(), {count}, dtype);
        const auto staged = values_of(world.rank(), {count}, dtype);
        all_reduce(world, staged)->wait();
        EXPECT_TRUE(staged.equal(expected)) << c10::toString(dtype) << count;
        const auto placed = world.backend()->allocateTensor(count, at::TensorOptions(dtype));
        placed.copy_(values_of(world.rank(), {count}, dtype));
        all_reduce(world, placed)->wait();
        EXPECT_TRUE(placed.equal(expected)) << c10::toString(dtype) << count << " in place";
      }
    }
  });
}

TEST(ShmBackend, ReducesBoolAsLogic) {
  on_ranks(2, [](Group& world) {
    const auto reduced = [&](const c10d::ReduceOp& op) {
      auto tensor = at::full({1}, world.rank() == 0, at::kBool);
      all_reduce(world, tensor, op)->wait();
      return tensor.item<bool>();
    };
    EXPECT_TRUE(reduced(c10d::ReduceOp::SUM));
    EXPECT_FALSE(reduced(c10d::ReduceOp::PRODUCT));
    EXPECT_TRUE(reduced(c10d::ReduceOp::BXOR));
    EXPECT_THAT([&] { reduced(c10d::ReduceOp::AVG); },
                ThrowsMessage<UsageError>(HasSubstr("avg is not defined for Bool")));
  });
}

TEST(ShmBackend, MultipliesEachRanksFactor) {
  on_ranks(2, [](Group& world) {
    auto tensor = at::full({3}, 2.0F);
    all_reduce(world, tensor, c10d::makePreMulSum(world.rank() == 0 ? 0.5 : 3.0))->wait();
    EXPECT_TRUE(tensor.equal(at::full({3}, 7.0F)));
  });
}

TEST(ShmBackend, HasEveryFormOfAllGather) {
  on_ranks(2, [](Group& world) {
    const auto backend = world.backend();
    auto input = at::full({2, 2}, world.rank(), at::kFloat);
    auto output = at::empty({4, 2});
    backend->_allgather_base(output, input, {})->wait();
    EXPECT_TRUE(output.slice(0, 2).equal(at::full({2, 2}, 1.0F)));
    Tensors outputs{at::empty({4, 2}), at::empty({2})};
    Tensors inputs{input, at::full({1}, world.rank() + 5.0F)};
    backend->allgather_into_tensor_coalesced(outputs, inputs, {})->wait();
    EXPECT_TRUE(outputs[0].equal(output));
    EXPECT_EQ(outputs[1][1].item<float>(), 6);
    std::vector<Tensors> lists{{at::empty({2, 2}), at::empty({2, 2})},
                               {at::empty({1}), at::empty({1})}};
    backend->allgather_coalesced(lists, inputs, {})->wait();
    EXPECT_EQ(lists[1][1].item<float>(), 6);
    EXPECT_THAT([&] { backend->_allgather_base(input, input, {}); },
                ThrowsMessage<UsageError>(HasSubstr("the output has 4 elements")));
  });
}

TEST(ShmBackend, HasEveryFormOfReduceScatterAndAllToAll) {
  on_ranks(2, [](Group& world) {
    const auto backend = world.backend();
    auto input = at::arange(4, at::kFloat) + static_cast<double>(world.rank());
    auto output = at::empty({2});
    backend->_reduce_scatter_base(output, input, {})->wait();
    EXPECT_EQ(output[0].item<float>(), world.rank() == 0 ? 1 : 5);
    Tensors outputs{at::empty({2}), at::empty({1})};
    Tensors inputs{input, at::full({2}, 1.0F)};
    backend->reduce_scatter_tensor_coalesced(outputs, inputs, {})->wait();
    EXPECT_TRUE(outputs[0].equal(output));
    EXPECT_EQ(outputs[1].item<float>(), 2);

    auto received = at::empty({4});
    std::vector<std::int64_t> none;
    backend->alltoall_base(received, input, none, none, {})->wait();
    EXPECT_EQ(received[2].item<float>(), world.rank() == 0 ? 1 : 3);
    std::vector<std::int64_t> given{1, 3};
    std::vector<std::int64_t> taken{world.rank() == 0 ? 1 : 3, world.rank() == 0 ? 1 : 3};
    auto uneven = at::empty({world.rank() == 0 ? 2 : 6});
    backend->alltoall_base(uneven, input, taken, given, {})->wait();
    EXPECT_EQ(uneven[-1].item<float>(), world.rank() == 0 ? 1 : 4);
    given = {2, 3};
    EXPECT_THAT([&] { backend->alltoall_base(uneven, input, taken, given, {}); },
                ThrowsMessage<UsageError>(HasSubstr("do not add up")));
  });
}

TEST(ShmBackend, CoalescesReductionsOfSeveralDtypes) {
  on_ranks(2, [](Group& world) {
    Tensors tensors{at::full({3}, 1.0F), at::full({2}, 2, at::kLong)};
    world.backend()->allreduce_coalesced(tensors, {})->wait();
    EXPECT_TRUE(tensors[0].equal(at::full({3}, 2.0F)));
    EXPECT_TRUE(tensors[1].equal(at::full({2}, 4, at::kLong)));
  });
}

// What Gloo makes of the same tensors, in the same processes.
TEST(ShmBackend, SumsSparseTensorsAsGlooDoes) {
  on_ranks(3, [](Group& world) {
    const auto gloo_world = world.store();
    auto gloo =
        BackendRegistry::built_in().make("gloo", {.store = gloo_world,
                                                  .rank = world.rank(),
                                                  .size = 3,
                                                  .timeout = std::chrono::seconds(30),
                                                  .connect_timeout = std::chrono::seconds(30)});
    // Rank 2 has nothing; rank 0 has one place twice.
    const auto dense = [&] {
      auto tensor = at::zeros({4, 2}, at::kFloat);
      if (world.rank() < 2) {
        tensor[world.rank()].fill_(world.rank() + 1.5);
        tensor[3].fill_(0.1);
      }
      return tensor;
    };
    auto mine = dense().to_sparse(1);
    auto theirs = dense().to_sparse(1);
    Tensors ours{mine};
    world.backend()->allreduce(ours, {})->wait();
    Tensors of_gloo{theirs};
    gloo->allreduce(of_gloo, {})->wait();
    EXPECT_TRUE(mine.is_coalesced());
    EXPECT_TRUE(mine.indices().equal(theirs.coalesce().indices()));
    EXPECT_TRUE(mine.to_dense().equal(theirs.to_dense()));
    world.barrier();
  });
}

TEST(ShmBackend, RanksMayWaitInDifferentOrders) {
  on_ranks(2, [](Group& world) {
    Tensors tensors;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < 40; ++i) {
      tensors.push_back(at::full({i % 3 == 0 ? 50000 : 10}, static_cast<float>(i)));
      works.push_back(all_reduce(world, tensors.back()));
    }
    for (int i = 0; i < 40; ++i) {
      const int k = world.rank() == 0 ? i : 39 - i;
      works[static_cast<std::size_t>(k)]->wait();
      EXPECT_EQ(tensors[static_cast<std::size_t>(k)][-1].item<float>(),
                2.0F * static_cast<float>(k));
    }
  });
}

TEST(ShmBackend, FinishesWorksThatNobodyWaitsFor) {
  on_ranks(2, [](Group& world) {
    const auto tensor = at::full({10}, 1.0F);
    const auto work = all_reduce(world, tensor);
    const auto deadline = Deadline::in(std::chrono::seconds(20));
    while (!work->isCompleted() && !deadline.passed()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(work->isSuccess());
    EXPECT_EQ(tensor[0].item<float>(), 2);
  });
}

TEST(ShmBackend, CompletesFuturesByItself) {
  on_ranks(2, [](Group& world) {
    const auto tensor = at::full({10}, 1.0F);
    const auto future = all_reduce(world, tensor)->getFuture();
    future->wait();  // c10's own: we cannot run anything in it.
    EXPECT_EQ(future->value().toTensorVector()[0][0].item<float>(), 2);
    const auto failed = all_reduce(world, at::full({world.rank() + 1}, 1.0F))->getFuture();
    failed->wait();
    EXPECT_TRUE(failed->hasError());
  });
}

TEST(ShmBackend, AWaitThatIsTooShortLeavesTheWorkRunning) {
  on_ranks(2, [](Group& world) {
    const auto tensor = at::full({10}, 1.0F);
    if (world.rank() == 0) {
      const auto work = all_reduce(world, tensor);
      EXPECT_THAT([&] { work->wait(std::chrono::milliseconds(50)); },
                  ThrowsMessage<PeerError>(HasSubstr("not done after 50 ms")));
      world.store()->set("gave up", "1");
      work->wait();
    } else {
      world.store()->wait({"gave up"});
      all_reduce(world, tensor)->wait();
    }
    EXPECT_EQ(tensor[0].item<float>(), 2);
  });
}

TEST(ShmBackend, ReceivesByTagAndFromAnyone) {
  on_ranks(3, [](Group& world) {
    const auto backend = world.backend();
    if (world.rank() == 0) {
      int seen = 0;
      for (int i = 0; i < 2; ++i) {
        Tensors message{at::zeros({3})};
        const auto work = backend->recvAnysource(message, 7);
        work->wait();
        EXPECT_EQ(message[0][0].item<float>(), work->sourceRank());
        seen += work->sourceRank();
      }
      EXPECT_EQ(seen, 3);
    } else {
      Tensors message{at::full({3}, static_cast<float>(world.rank()))};
      backend->send(message, 0, 7)->wait();
    }
  });
}

TEST(ShmBackend, SendsMoreThanThereAreLettersBeforeAnybodyReceives) {
  on_ranks(2, [](Group& world) {
    const auto backend = world.backend();
    const int other = 1 - world.rank();
    constexpr int kMany = 500;
    for (int i = 0; i < kMany; ++i) {
      Tensors message{at::full({100}, i)};
      (void)backend->send(message, other, 0);
    }
    for (int i = 0; i < kMany; ++i) {
      Tensors message{at::full({100}, -1)};
      backend->recv(message, other, 0)->wait();
      ASSERT_EQ(message[0][99].item<std::int64_t>(), i);
    }
  });
}

TEST(ShmBackend, AMessageOfAnotherSizeIsAnErrorOfTheReceiver) {
  on_ranks(2, [](Group& world) {
    const auto backend = world.backend();
    if (world.rank() == 0) {
      Tensors message{at::zeros({4})};
      backend->send(message, 1, 0)->wait();
    } else {
      Tensors message{at::zeros({3})};
      EXPECT_THAT([&] { backend->recv(message, 0, 0)->wait(); },
                  ThrowsMessage<UsageError>(HasSubstr("rank 0 sent 16 bytes")));
    }
    all_reduce(world, at::zeros({1}))->wait();  // The group is as good as before.
  });
}

TEST(ShmBackend, SeveralGroupsFromSeveralThreads) {
  on_ranks(3, [](Group& world) {
    const Group pair = world.new_group({0, 1});
    const Group again = world.new_group({0, 1, 2});
    const auto work_on = [](const Group& group) {
      if (!group.is_member()) {
        return;
      }
      for (int i = 0; i < 300; ++i) {
        const auto tensor = at::full({i % 7 == 0 ? 20000 : 3}, static_cast<float>(i));
        group.all_reduce(tensor).wait();
        ASSERT_EQ(tensor[-1].item<float>(), static_cast<float>(i * group.size()));
      }
    };
    std::thread first([&] { work_on(pair); });
    std::thread second([&] { work_on(again); });
    work_on(world);
    first.join();
    second.join();
  });
}

TEST(ShmBackend, DifferentCallsAreAnErrorOnAllRanksThatShowsBothSides) {
  on_ranks(3, [](Group& world) {
    const auto tensor = at::zeros({world.rank() == 2 ? 5 : 4});
    EXPECT_THAT([&] { world.all_reduce(tensor).wait(); },
                ThrowsMessage<PeerError>(
                    AllOf(HasSubstr("on rank " + std::to_string(world.rank()) + " of 3"),
                          HasSubstr("calls all_reduce(sum, float32, 4 elements: 16 bytes)"),
                          HasSubstr("calls all_reduce(sum, float32, 5 elements: 20 bytes)"))));
    // What failed once is of no use any more, but a new group is.
    EXPECT_THROW(world.all_reduce(at::zeros({1})).wait(), PeerError);
    const Group fresh = world.new_group({0, 1, 2});
    const auto one = at::full({1}, 1.0F);
    fresh.all_reduce(one).wait();
    EXPECT_EQ(one.item<float>(), 3);
  });
}

TEST(ShmBackend, ARankThatLeavesIsNamed) {
  on_ranks(2, [](Group& world) {
    Group pair = world.new_group({0, 1});
    if (world.rank() == 1) {
      pair.destroy();
    } else {
      EXPECT_THAT([&] { pair.all_reduce(at::zeros({1})).wait(); },
                  ThrowsMessage<PeerError>(AllOf(HasSubstr("rank 1 (pid "), HasSubstr("left"))));
    }
  });
}

TEST(ShmBackend, TensorsOfTheArenaOutliveTheGroup) {
  on_ranks(2, [](Group& world) {
    Group pair = world.new_group({0, 1});
    const auto tensor = pair.backend()->allocateTensor(1000, at::TensorOptions(at::kFloat));
    tensor.fill_(1);
    pair.all_reduce(tensor).wait();
    pair.destroy();
    EXPECT_EQ(tensor.sum().item<float>(), 2000);
  });
}

TEST(ShmBackend, TooLittleMemoryIsAnErrorThatSaysHowMuch) {
  on_ranks(1, [](Group& world) {
    EXPECT_THAT(
        [&] { (void)world.backend()->allocateTensor(1L << 45, at::TensorOptions(at::kByte)); },
        ThrowsMessage<IoError>(HasSubstr("32.0 TiB")));
  });
}

TEST(ShmBackend, RanksOfDifferentHostsAreRefusedOnAllRanks) {
  EXPECT_NO_THROW(spawn(2, [](int rank) {
    ::setenv("LOCKSTEP_HOST_ID", std::to_string(rank).c_str(), 1);
    EXPECT_THAT([] { init_process_group({.backend = "shm"}); },
                ThrowsMessage<UsageError>(HasSubstr("cannot share memory")));
    if (::testing::Test::HasFailure()) {
      throw std::runtime_error("expectations failed, see above");
    }
  }));
}

}  // namespace
}  // namespace lockstep::comm
