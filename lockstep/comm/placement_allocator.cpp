#include "lockstep/comm/placement_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace lockstep::comm {
namespace {

constexpr const char* kSwitch = "LOCKSTEP_ALLOCATE_IN_BUCKETS";

class PlacedMemory {
 public:
  // Called around a fork: another thread may hold the lock, and that thread does not exist in the
  // child to release it.
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

  void add(const MemorySource::Memory& place) {
    const std::lock_guard lock(mutex_);
    owners_.emplace(place.data, place.owner);
    count_.store(owners_.size());
  }

  // Ends the use of this memory; returns false if there is none.
  bool end(const void* data) {
    if (count_.load() == 0) {  // Every tensor of the process comes by here.
      return false;
    }
    c10::Storage owner;  // Ends after the lock: the last owner frees a whole bucket.
    const std::lock_guard lock(mutex_);
    const auto found = owners_.find(data);
    if (found == owners_.end()) {
      return false;
    }
    owner = std::move(found->second);
    owners_.erase(found);
    count_.store(owners_.size());
    return true;
  }

  [[nodiscard]] bool has(const void* data) {
    if (count_.load() == 0) {
      return false;
    }
    const std::lock_guard lock(mutex_);
    return owners_.contains(data);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, c10::Storage> owners_;
  std::atomic<std::size_t> count_{0};
};

// Tensors can outlive everything static.
PlacedMemory& placed_memory() {
  static auto* const all = new PlacedMemory;  // NOLINT(cppcoreguidelines-owning-memory)
  return *all;
}

// A pointer, so that no destructor runs when a thread ends: others might still ask after that.
thread_local std::shared_ptr<MemorySource>* source_of_this_thread = nullptr;  // NOLINT

// NOLINTNEXTLINE: as c10's allocator, which asks it.
std::atomic<std::shared_ptr<MemorySource>*> source_of_all_threads = nullptr;

// The one to ask, or null.
std::shared_ptr<MemorySource>* source_to_ask() {
  return source_of_this_thread != nullptr ? source_of_this_thread : source_of_all_threads.load();
}

c10::Allocator* usual = nullptr;  // NOLINT: a deleter of c10's has nothing but the address.

void free_or_give_back(void* data) {
  if (!placed_memory().end(data)) {
    usual->raw_deleter()(data);
  }
}

class PlacementAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const auto* const source = source_to_ask();
    if (source == nullptr) {
      return as_ours(usual->allocate(bytes));
    }
    const auto asked = *source;
    const auto place = asked->memory_for(bytes);
    c10::DataPtr made;
    if (place.data != nullptr) {
      placed_memory().add(place);
      made = {place.data, place.data, &free_or_give_back, c10::Device(c10::kCPU)};
    } else {
      made = as_ours(usual->allocate(bytes));
    }
    asked->made(made.get(), bytes);
    return made;
  }

  // One deleter for all memory, as c10 requires: oneDNN frees memory without the rest of a DataPtr.
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &free_or_give_back; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    usual->copy_data(to, from, bytes);
  }

 private:
  static c10::DataPtr as_ours(c10::DataPtr made) {
    static_cast<void>(made.compare_exchange_deleter(usual->raw_deleter(), &free_or_give_back));
    return made;
  }
};

// NOLINTBEGIN: c10's allocator is a global as well.
std::atomic<c10::Allocator*> ours = nullptr;
std::atomic<bool> wanted = true;
// NOLINTEND

void warn_of_another_allocator() {
  TORCH_WARN_ONCE(
      "the program has a CPU allocator of its own (c10::SetCPUAllocator), so tensors are not "
      "allocated in shared memory: gradients, for one, are copied into their buckets; ",
      kSwitch, "=0 says that this is meant");
}

void install() {
  auto* const before = c10::GetCPUAllocator();
  if (before != c10::GetDefaultCPUAllocator() || before->raw_deleter() == nullptr) {
    warn_of_another_allocator();
    return;
  }
  usual = before;
  ::pthread_atfork([] { placed_memory().before_fork(); }, [] { placed_memory().after_fork(); },
                   [] { placed_memory().after_fork(); });
  auto* const allocator = new PlacementAllocator;       // NOLINT(cppcoreguidelines-owning-memory)
  std::atomic_thread_fence(std::memory_order_seq_cst);  // c10's pointer is a plain one.
  c10::SetCPUAllocator(allocator);
  ours.store(allocator);
}

}  // namespace

void install_placement_allocator(const Environment& environment) {
  wanted = environment.get_int(kSwitch).value_or(1) != 0;
  if (wanted) {
    static std::once_flag once;
    std::call_once(once, install);
  }
}

bool placement_is_on() {
  const auto* const installed = ours.load();
  if (installed == nullptr || !wanted) {
    return false;
  }
  if (c10::GetCPUAllocator() != installed) {
    warn_of_another_allocator();
    return false;
  }
  return true;
}

void set_memory_source(std::shared_ptr<MemorySource> memory_source) {
  auto* const before =
      std::exchange(source_of_this_thread,
                    memory_source ? new std::shared_ptr<MemorySource>(std::move(memory_source))
                                  : nullptr);  // NOLINT
  delete before;                               // NOLINT
}

void set_memory_source_of_all_threads(std::shared_ptr<MemorySource> memory_source) {
  source_of_all_threads = memory_source
                              ? new std::shared_ptr<MemorySource>(std::move(memory_source))
                              : nullptr;  // NOLINT
}

std::shared_ptr<MemorySource> memory_source() {
  return source_of_this_thread != nullptr ? *source_of_this_thread : nullptr;
}

bool is_placed(const void* data) { return placed_memory().has(data); }

}  // namespace lockstep::comm
