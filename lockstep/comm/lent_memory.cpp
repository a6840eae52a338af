#include "lockstep/comm/lent_memory.h"

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

class Loans {
 public:
  // Around a fork: another thread may have the lock, and the child has no such thread to free it.
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

  void add(const Lender::Loan& loan) {
    const std::lock_guard lock(mutex_);
    owners_.emplace(loan.data, loan.owner);
    count_.store(owners_.size());
  }

  // Ends a loan; false if there is none of that memory.
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
Loans& loans() {
  static auto* const all = new Loans;  // NOLINT(cppcoreguidelines-owning-memory)
  return *all;
}

// By pointer: a thread that ends has no destructor to run, after which others might still ask.
thread_local std::shared_ptr<Lender>* lender_of_this_thread = nullptr;  // NOLINT

c10::Allocator* usual = nullptr;  // NOLINT: a deleter of c10's has nothing but the address.

void free_or_give_back(void* data) {
  if (!loans().end(data)) {
    usual->raw_deleter()(data);
  }
}

class LendingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (lender_of_this_thread == nullptr) {
      return as_ours(usual->allocate(bytes));
    }
    const auto asked = *lender_of_this_thread;
    const auto loan = asked->lend(bytes);
    c10::DataPtr made;
    if (loan.data != nullptr) {
      loans().add(loan);
      made = {loan.data, loan.data, &free_or_give_back, c10::Device(c10::kCPU)};
    } else {
      made = as_ours(usual->allocate(bytes));
    }
    asked->made(made.get(), bytes);
    return made;
  }

  // One for all, as c10 asks for it: oneDNN's memory comes and goes without the rest of a DataPtr.
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
      "the program has a CPU allocator of its own (c10::SetCPUAllocator), so gradients are copied "
      "into their buckets instead of being allocated there; ",
      kSwitch, "=0 says that this is meant");
}

void install() {
  auto* const before = c10::GetCPUAllocator();
  if (before != c10::GetDefaultCPUAllocator() || before->raw_deleter() == nullptr) {
    warn_of_another_allocator();
    return;
  }
  usual = before;
  ::pthread_atfork([] { loans().before_fork(); }, [] { loans().after_fork(); },
                   [] { loans().after_fork(); });
  auto* const allocator = new LendingAllocator;         // NOLINT(cppcoreguidelines-owning-memory)
  std::atomic_thread_fence(std::memory_order_seq_cst);  // c10's pointer is a plain one.
  c10::SetCPUAllocator(allocator);
  ours.store(allocator);
}

}  // namespace

void prepare_lending(const Environment& environment) {
  wanted = environment.get_int(kSwitch).value_or(1) != 0;
  if (wanted) {
    static std::once_flag once;
    std::call_once(once, install);
  }
}

bool can_lend() {
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

void set_lender(std::shared_ptr<Lender> lender) {
  auto* const before =
      std::exchange(lender_of_this_thread,
                    lender ? new std::shared_ptr<Lender>(std::move(lender)) : nullptr);  // NOLINT
  delete before;                                                                         // NOLINT
}

std::shared_ptr<Lender> lender() {
  return lender_of_this_thread != nullptr ? *lender_of_this_thread : nullptr;
}

bool is_lent(const void* data) { return loans().has(data); }

}  // namespace lockstep::comm
