#include "lockstep/comm/backends/shm/arena_source.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "lockstep/comm/backends/shm/backend.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::all_reduce;
using lockstep::testing::on_ranks;

constexpr std::int64_t kElementsInArena = std::int64_t{1} << 20;
constexpr std::size_t kBytesInArena = kElementsInArena * sizeof(float);

const ShmBackend& shm_of(Group& group) { return dynamic_cast<const ShmBackend&>(*group.backend()); }

// As long as it lives, this thread's tensors ask a source.
class Asking {
 public:
  explicit Asking(std::shared_ptr<MemorySource> source) {
    install_placement_allocator({});
    set_memory_source(std::move(source));
  }
  ~Asking() { set_memory_source(nullptr); }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
};

TEST(ArenaSource, LargeTensorsAreReducedWithoutACopyAndOthersAreNot) {
  on_ranks(2, [](Group& world) {
    const auto& shm = shm_of(world);
    const auto sum = [&](const at::Tensor& tensor) {
      const auto before = shm.memory_stats().copied_bytes;
      all_reduce(world, tensor)->wait();
      EXPECT_TRUE(tensor.eq(3).all().item<bool>());
      return shm.memory_stats().copied_bytes - before;
    };
    const auto outside = at::full({kElementsInArena}, world.rank() + 1.0F);
    EXPECT_EQ(sum(outside), kBytesInArena);
    EXPECT_EQ(shm.memory_stats().arena.allocated_bytes, 0);
    {
      const Asking asking(shm.arena_source());
      const auto inside = at::full({kElementsInArena}, world.rank() + 1.0F);
      EXPECT_EQ(shm.memory_stats().arena.allocated_bytes, kBytesInArena);
      EXPECT_EQ(sum(inside), 0);
      const auto small = at::empty({ArenaSource::kLeastBytes - 1}, at::kByte);
      EXPECT_EQ(shm.memory_stats().arena.allocated_bytes, kBytesInArena);
    }
    EXPECT_EQ(shm.memory_stats().arena.allocated_bytes, 0);
    EXPECT_GE(shm.memory_stats().arena.reserved_bytes, kBytesInArena);
  });
}

TEST(ArenaSource, TensorsOutliveTheGroupAndLaterOnesAreMadeAsAlways) {
  on_ranks(2, [](Group& world) {
    Group pair = world.new_group({0, 1});
    const Asking asking(shm_of(pair).arena_source());
    auto tensor = at::full({kElementsInArena}, world.rank() + 1.0F);
    all_reduce(pair, tensor)->wait();
    pair.destroy();
    tensor.add_(1);
    EXPECT_TRUE(tensor.eq(4).all().item<bool>());
    EXPECT_TRUE(is_placed(tensor.const_data_ptr()));
    const auto later = at::full({kElementsInArena}, 5.0F);
    EXPECT_FALSE(is_placed(later.const_data_ptr()));
    tensor.reset();
    EXPECT_TRUE(at::full({kElementsInArena}, 6.0F).eq(6).all().item<bool>());
  });
}

TEST(ArenaSource, OffersNothingThatTheMachineDoesNotHave) {
  on_ranks(1, [](Group& world) {
    const auto source = shm_of(world).arena_source();
    EXPECT_EQ(source->memory_for(std::size_t{1} << 45).data, nullptr);
    EXPECT_NE(source->memory_for(kBytesInArena).data, nullptr);
  });
}

TEST(ArenaSource, AForkMakesItsTensorsAsAlways) {
  on_ranks(2, [](Group& world) {
    const Asking asking(shm_of(world).arena_source());
    const auto inherited = at::full({kElementsInArena}, 7.0F);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto own = at::empty({kElementsInArena});
      const bool right = is_placed(inherited.const_data_ptr()) && !is_placed(own.const_data_ptr());
      ::_exit(right ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(is_placed(at::empty({kElementsInArena}).const_data_ptr()));
  });
}

TEST(ArenaSource, ServesAllThreadsIfAskedTo) {
  on_ranks(2, [](Group& world) {
    const auto is_placed_in_a_thread = [] {
      bool placed = false;
      std::thread([&] {
        placed = is_placed(at::empty({kElementsInArena}).const_data_ptr());
      }).join();
      return placed;
    };
    const Asking asking(shm_of(world).arena_source());
    EXPECT_FALSE(is_placed_in_a_thread());
    set_memory_source_of_all_threads(shm_of(world).arena_source());
    EXPECT_TRUE(is_placed_in_a_thread());
    set_memory_source_of_all_threads(nullptr);
    EXPECT_FALSE(is_placed_in_a_thread());
  });
}

}  // namespace
}  // namespace lockstep::comm
