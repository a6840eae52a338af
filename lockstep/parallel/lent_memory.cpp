#include "lockstep/parallel/lent_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <mutex>
#include <unordered_map>

namespace lockstep::parallel {
namespace {

class Loans {
 public:
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

thread_local std::shared_ptr<Lender>
    lender_of_this_thread;        // NOLINT: c10 has one allocator for all.
c10::Allocator* usual = nullptr;  // NOLINT: so do its deleters.

void free_or_give_back(void* data) {
  if (!loans().end(data)) {
    usual->raw_deleter()(data);
  }
}

class LendingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const auto lender = lender_of_this_thread;
    if (!lender) {
      return as_ours(usual->allocate(bytes));
    }
    auto loan = lender->lend(bytes);
    c10::DataPtr made;
    if (loan.data != nullptr) {
      loans().add(loan);
      made = {loan.data, loan.data, &free_or_give_back, c10::Device(c10::kCPU)};
    } else {
      made = as_ours(usual->allocate(bytes));
    }
    lender->made(made.get(), bytes);
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

// False where LibTorch's allocator has no deleter that could be called in its stead.
bool install() {
  usual = c10::GetCPUAllocator();
  if (usual->raw_deleter() == nullptr) {
    return false;
  }
  static auto* const ours = new LendingAllocator;  // NOLINT(cppcoreguidelines-owning-memory)
  c10::SetCPUAllocator(ours);
  return true;
}

}  // namespace

void set_lender(std::shared_ptr<Lender> lender) {
  static const bool installed = install();
  if (installed) {
    lender_of_this_thread = std::move(lender);
  }
}

bool is_lent(const void* data) { return loans().has(data); }

}  // namespace lockstep::parallel
