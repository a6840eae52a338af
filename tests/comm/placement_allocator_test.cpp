#include "lockstep/comm/placement_allocator.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"

namespace lockstep::comm {
namespace {

// Offers one piece of memory to every tensor of its size while it is free.
class OnePlace : public MemorySource {
 public:
  explicit OnePlace(at::Tensor memory) : memory_(std::move(memory)) {}

  Memory memory_for(std::size_t bytes) override {
    if (bytes != memory_.nbytes() || is_placed(memory_.const_data_ptr())) {
      return {};
    }
    return {memory_.mutable_data_ptr(), memory_.storage()};
  }
  void made(const void* data, std::size_t /*bytes*/) override { last_ = data; }
  [[nodiscard]] bool is_busy() const override { return true; }

  [[nodiscard]] const void* last() const { return last_; }
  void forget() { memory_ = at::zeros({1}); }

 private:
  at::Tensor memory_;
  const void* last_ = nullptr;
};

class PlacementAllocator : public ::testing::Test {
 protected:
  PlacementAllocator() {
    install_placement_allocator({});
    set_memory_source(memory_source_);
  }
  ~PlacementAllocator() override { set_memory_source(nullptr); }

  at::Tensor memory_ = at::full({1000}, 7.0F);
  std::shared_ptr<OnePlace> memory_source_ = std::make_shared<OnePlace>(memory_);
};

TEST_F(PlacementAllocator, TensorsAreMadeInIt) {
  const auto other = at::empty({999});
  EXPECT_EQ(memory_source_->last(), other.const_data_ptr());
  auto tensor = at::empty({1000});
  EXPECT_EQ(memory_source_->last(), tensor.const_data_ptr());
  EXPECT_EQ(tensor.const_data_ptr(), memory_.const_data_ptr());
  EXPECT_FALSE(tensor.is_alias_of(memory_));
  EXPECT_TRUE(is_placed(memory_.const_data_ptr()));
  const auto second = at::zeros({1000});
  EXPECT_NE(second.const_data_ptr(), memory_.const_data_ptr());
  EXPECT_TRUE(memory_.eq(7).all().item<bool>());
  tensor.fill_(3);
  EXPECT_TRUE(memory_.eq(3).all().item<bool>());
  tensor = at::Tensor();
  EXPECT_FALSE(is_placed(memory_.const_data_ptr()));
  EXPECT_EQ(at::empty({1000}).const_data_ptr(), memory_.const_data_ptr());
}

TEST_F(PlacementAllocator, IsKeptForTheTensorThatHasIt) {
  std::vector<float> memory(500);
  bool freed = false;
  auto memory_source =
      std::make_shared<OnePlace>(at::from_blob(memory.data(), {500}, [&](void*) { freed = true; }));
  set_memory_source(memory_source);
  auto tensor = at::empty({500});
  ASSERT_EQ(tensor.const_data_ptr(), memory.data());
  memory_source->forget();
  EXPECT_FALSE(freed);
  tensor.fill_(5);
  EXPECT_EQ(memory[499], 5);
  tensor = at::Tensor();
  EXPECT_TRUE(freed);
  EXPECT_FALSE(is_placed(memory.data()));
}

TEST_F(PlacementAllocator, ATensorGrowsOutOfIt) {
  auto tensor = at::empty({1000});
  tensor.fill_(4).resize_({5000});
  EXPECT_FALSE(is_placed(memory_.const_data_ptr()));
  EXPECT_NE(tensor.const_data_ptr(), memory_.const_data_ptr());
  EXPECT_TRUE(tensor.narrow(0, 0, 1000).eq(4).all().item<bool>());
}

// As oneDNN does.
TEST_F(PlacementAllocator, IsAlsoAllocatedAndFreedRaw) {
  auto* const allocator = c10::GetCPUAllocator();
  for (const std::size_t bytes : {4000UL, 123UL}) {
    void* const data = allocator->raw_allocate(bytes);
    EXPECT_EQ(data == memory_.const_data_ptr(), bytes == 4000);
    allocator->raw_deallocate(data);
    EXPECT_FALSE(is_placed(data));
  }
  EXPECT_EQ(at::empty({5}).storage().data_ptr().get_deleter(), allocator->raw_deleter());
}

TEST_F(PlacementAllocator, OtherThreadsGetTheirOwn) {
  std::thread([this] {
    EXPECT_NE(at::empty({1000}).const_data_ptr(), memory_.const_data_ptr());
  }).join();
  auto tensor = at::empty({1000});
  std::thread([moved = std::move(tensor)]() mutable { moved = at::Tensor(); }).join();
  EXPECT_FALSE(is_placed(memory_.const_data_ptr()));
}

TEST_F(PlacementAllocator, NobodyIsAskedAnyMore) {
  EXPECT_EQ(memory_source(), memory_source_);
  set_memory_source(nullptr);
  EXPECT_EQ(memory_source(), nullptr);
  EXPECT_NE(at::empty({1000}).const_data_ptr(), memory_.const_data_ptr());
}

constexpr int kForks = 200;
constexpr int kPatienceMs = 20'000;

// Ends with success when it could free a tensor that was placed, before the deadline.
bool child_frees(at::Tensor& tensor) {
  int ends[2];
  if (::pipe(ends) != 0) {
    return false;
  }
  const auto child = ::fork();
  if (child == 0) {
    const void* const data = tensor.const_data_ptr();
    tensor = at::Tensor();
    ::_exit(is_placed(data) ? 1 : 0);  // Closes the pipe.
  }
  ::close(ends[1]);
  pollfd ended{.fd = ends[0], .events = POLLIN, .revents = 0};
  const bool in_time = ::poll(&ended, 1, kPatienceMs) == 1;
  ::kill(child, SIGKILL);  // Harmless if it has ended: nobody has waited for it yet.
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(ends[0]);
  return in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Another thread has the lock most of the time, and is not there in the child.
TEST_F(PlacementAllocator, AForkedChildCanFreeATensor) {
  auto kept = at::empty({1000});
  ASSERT_TRUE(is_placed(kept.const_data_ptr()));
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
      (void)is_placed(&stop);
    }
  });
  int freed = 0;
  for (int i = 0; i < kForks && freed == i; ++i) {
    freed += child_frees(kept) ? 1 : 0;
  }
  stop = true;
  busy.join();
  EXPECT_EQ(freed, kForks);
}

// The allocator of a program: LibTorch's, and counts.
class Foreign : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    ++count;
    return c10::GetDefaultCPUAllocator()->allocate(bytes);
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override {
    return c10::GetDefaultCPUAllocator()->raw_deleter();
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  int count = 0;
};

struct Warnings : c10::WarningHandler {
  void process(const c10::Warning& warning) override { texts.push_back(warning.msg()); }
  std::vector<std::string> texts;
};

// The allocator of a process is set once: each of these is a process of its own, which ends with
// success if all of it is true.
class PlacementAllocatorBesideAnother : public ::testing::Test {
 protected:
  PlacementAllocatorBesideAnother() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static void end(bool good) {
    std::fputs(good ? "good" : "bad", stderr);
    std::_Exit(good ? 0 : 1);
  }
};

bool warned_once(const Warnings& warnings) {
  return warnings.texts.size() == 1 &&
         warnings.texts[0].find("SetCPUAllocator") != std::string::npos &&
         warnings.texts[0].find("LOCKSTEP_ALLOCATE_IN_BUCKETS=0") != std::string::npos;
}

TEST_F(PlacementAllocatorBesideAnother, StepsAsideForOneThatWasThere) {
  EXPECT_EXIT(
      {
        Warnings warnings;
        c10::WarningUtils::set_warning_handler(&warnings);
        Foreign foreign;
        c10::SetCPUAllocator(&foreign);
        install_placement_allocator({});
        install_placement_allocator({});
        end(c10::GetCPUAllocator() == &foreign && !placement_is_on() && warned_once(warnings));
      },
      ::testing::ExitedWithCode(0), "good");
}

TEST_F(PlacementAllocatorBesideAnother, StepsAsideForOneThatCameLater) {
  EXPECT_EXIT(
      {
        Warnings warnings;
        c10::WarningUtils::set_warning_handler(&warnings);
        install_placement_allocator({});
        const bool could = placement_is_on() && warnings.texts.empty();
        auto before = at::ones({100});
        Foreign foreign;
        c10::SetCPUAllocator(&foreign);
        const bool aside = !placement_is_on() && !placement_is_on();
        before = at::ones({100});  // Each is freed as it was made.
        end(could && aside && foreign.count == 1 && warned_once(warnings));
      },
      ::testing::ExitedWithCode(0), "good");
}

TEST_F(PlacementAllocatorBesideAnother, IsTurnedOffByTheEnvironment) {
  EXPECT_EXIT(
      {
        auto* const before = c10::GetCPUAllocator();
        install_placement_allocator({{"LOCKSTEP_ALLOCATE_IN_BUCKETS", "0"}});
        const bool off = c10::GetCPUAllocator() == before && !placement_is_on();
        install_placement_allocator({{"LOCKSTEP_ALLOCATE_IN_BUCKETS", "1"}});
        const bool on = placement_is_on();
        install_placement_allocator({{"LOCKSTEP_ALLOCATE_IN_BUCKETS", "0"}});
        end(off && on && !placement_is_on());
      },
      ::testing::ExitedWithCode(0), "good");
}

// Throws unless a group over this backend installs the allocator as expected.
void require_installed(const char* backend, bool expected) {
  const auto* const before = c10::GetCPUAllocator();
  const Group world = init_process_group({.backend = backend, .timeout = std::chrono::seconds(60)});
  if ((c10::GetCPUAllocator() != before) != expected) {
    throw std::runtime_error(std::string(backend) + ": the allocator is another than expected");
  }
}

TEST_F(PlacementAllocatorBesideAnother, IsInstalledByAGroupThatSumsInMemoryOfItsOwn) {
  EXPECT_EXIT(
      {
        spawn(2, [](int) { require_installed("shm", true); });
        spawn(2, [](int) { require_installed("gloo", false); });
        spawn(1, [](int) { require_installed("shm", false); });
        end(true);
      },
      ::testing::ExitedWithCode(0), "good");
}

}  // namespace
}  // namespace lockstep::comm
