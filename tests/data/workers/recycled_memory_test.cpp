#include "lockstep/data/workers/recycled_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/child.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kMegabyte = 1 << 20;

TEST(RecycledMemory, GivesABlockAgain) {
  RecycledMemory memory;
  void* const first = memory.take(kMegabyte).get();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0);
  EXPECT_EQ(memory.kept(), 1);
  const auto again = memory.take(kMegabyte);
  EXPECT_EQ(again.get(), first);
  EXPECT_EQ(memory.kept(), 0);
  EXPECT_NE(memory.take(kMegabyte).get(), first) << "it is in use";
}

TEST(RecycledMemory, ASmallerBatchMayUseIt) {
  RecycledMemory memory;
  void* const first = memory.take(kMegabyte).get();
  EXPECT_EQ(memory.take(kMegabyte / 3).get(), first);
  EXPECT_NE(memory.take(kMegabyte + 1).get(), first) << "it would be too small";
  EXPECT_NE(memory.take(1).get(), nullptr);
  EXPECT_NE(memory.take(0).get(), nullptr);
}

void take_at_once(RecycledMemory& memory, int count, std::size_t bytes) {
  std::vector<std::shared_ptr<void>> blocks;
  for (int i = 0; i < count; ++i) {
    blocks.push_back(memory.take(bytes));
  }
}

TEST(RecycledMemory, KeepsWhatWasInUseAtTheSameTime) {
  RecycledMemory memory;
  for (int epoch = 0; epoch < 3; ++epoch) {
    take_at_once(memory, 32, kMegabyte);
    EXPECT_EQ(memory.kept(), 32);
  }
  take_at_once(memory, 100, kMegabyte);
  EXPECT_EQ(memory.kept(), 64) << "and no more than that";
}

TEST(RecycledMemory, BlocksOfAnotherSizeMakeRoom) {
  RecycledMemory memory;
  take_at_once(memory, 64, kMegabyte);
  take_at_once(memory, 64, 2 * kMegabyte);
  EXPECT_EQ(memory.kept(), 64);
  const auto large = memory.take(2 * kMegabyte);
  EXPECT_EQ(memory.kept(), 63) << "it came from those that were kept";
}

TEST(RecycledMemory, ABlockOutlivesIt) {
  auto memory = std::make_unique<RecycledMemory>();
  const auto block = memory->take(kMegabyte);
  memory.reset();
  std::memset(block.get(), 1, kMegabyte);
}

TEST(RecycledMemory, ThreadsNeverGetTheSameBlock) {
  RecycledMemory memory;
  std::vector<std::thread> threads;
  std::atomic<int> faults = 0;
  for (unsigned id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937 random(id);
      for (int i = 0; i < 500; ++i) {
        const std::size_t bytes = 256 + random() % 512;
        const auto block = memory.take(bytes);
        auto* values = static_cast<unsigned char*>(block.get());
        std::memset(values, static_cast<int>(id), bytes);
        std::this_thread::yield();
        for (std::size_t at = 0; at < bytes; ++at) {
          faults += values[at] == id ? 0 : 1;
        }
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(faults, 0);
  EXPECT_LE(memory.kept(), 4) << "each thread had one at a time";
}

// With a lock that is waited for, a child is stuck now and then.
TEST(RecycledMemory, AForkMayUseItWhileThreadsDo) {
  RecycledMemory memory;
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) {
      (void)memory.take(kMegabyte);
    }
  });
  const auto ours = memory.take(kMegabyte);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(test::run_in_child([&] { return memory.take(kMegabyte) == nullptr ? 1 : 0; }), 0);
  }
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace lockstep::data
