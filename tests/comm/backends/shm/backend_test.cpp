#include "lockstep/comm/backends/shm/backend.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::all_reduce;
using lockstep::testing::on_ranks;
using lockstep::testing::Tensors;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

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
    all_reduce(world, tensor, lockstep::testing::premultiplied_sum(world.rank() == 0 ? 0.5 : 3.0))
        ->wait();
    EXPECT_TRUE(tensor.equal(at::full({3}, 7.0F)));
  });
}

// Large enough for several chunks.
TEST(ShmBackend, AReduceScatterMayBeInPlace) {
  on_ranks(3, [](Group& world) {
    constexpr std::int64_t kCount = 200000;
    auto input = (at::arange(3 * kCount, at::kFloat) + static_cast<double>(world.rank()))
                     .reshape({3, kCount});
    const auto expected = input[world.rank()] * 3 + (3.0 - 3.0 * world.rank());
    auto output = input[world.rank()];
    world.backend()->_reduce_scatter_base(output, input, {})->wait();
    EXPECT_TRUE(output.equal(expected));
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

// A data loader's worker that changes what it inherited must not change its parent's gradients.
TEST(ShmBackend, AForkedChildNeitherChangesNorKeepsTensorsOfTheArena) {
  on_ranks(2, [](Group& world) {
    constexpr std::int64_t kElements = 1 << 20;
    auto tensor = world.backend()->allocateTensor(kElements, at::kFloat);
    tensor.fill_(world.rank() + 1);
    const pid_t child = ::fork();
    if (child == 0) {
      bool right = tensor[kElements - 1].item<float>() == static_cast<float>(world.rank() + 1);
      std::fill_n(tensor.data_ptr<float>(), kElements, 77.0F);  // fill_() may use threads.
      right = right && tensor[kElements - 1].item<float>() == 77;
      tensor.reset();
      ::_exit(right ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    all_reduce(world, tensor)->wait();
    EXPECT_TRUE(tensor.eq(3).all().item<bool>());
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

TEST(ShmBackend, GetErrorTellsWhetherTheGroupIsOfUse) {
  on_ranks(2, [](Group& world) {
    all_reduce(world, at::zeros({10}))->wait();
    EXPECT_EQ(world.backend()->getError(), c10d::ErrorType::SUCCESS);
    EXPECT_THROW(all_reduce(world, at::zeros({10 + world.rank()}))->wait(), PeerError);
    EXPECT_EQ(world.backend()->getError(), c10d::ErrorType::COMM_ERROR);
  });
}

}  // namespace
}  // namespace lockstep::comm
