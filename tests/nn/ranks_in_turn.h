// Ranks as threads of one process, for layers that need no process group.
#pragma once

#include <ATen/ops/stack.h>

#include <atomic>
#include <barrier>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "lockstep/nn/rank_exchange.h"

namespace lockstep::testing {

class ThreadExchange : public nn::RankExchange {
 public:
  struct Shared {
    explicit Shared(int ranks) : tensors(static_cast<std::size_t>(ranks)), meet(ranks) {}
    std::vector<at::Tensor> tensors;
    std::barrier<> meet;
    std::atomic<int> collectives = 0;
  };
  ThreadExchange(std::shared_ptr<Shared> shared, int rank)
      : shared_(std::move(shared)), rank_(static_cast<std::size_t>(rank)) {}

  int size() const override { return static_cast<int>(shared_->tensors.size()); }
  int rank() const override { return static_cast<int>(rank_); }
  at::Tensor gather(const at::Tensor& own) const override {
    shared_->tensors[rank_] = own;
    shared_->meet.arrive_and_wait();
    const auto all = at::stack(shared_->tensors);
    shared_->collectives += rank_ == 0 ? 1 : 0;
    shared_->meet.arrive_and_wait();
    return all;
  }
  void sum(const at::Tensor& tensor) const override {
    const auto all = gather(tensor);
    tensor.copy_(all.sum(0));
  }

 private:
  std::shared_ptr<Shared> shared_;
  std::size_t rank_;
};

// Returns the number of collectives. Rethrows the first rank's error.
inline int run_in_threads(
    int ranks, const std::function<void(int rank, const nn::RankExchangePointer&)>& body) {
  const auto shared = std::make_shared<ThreadExchange::Shared>(ranks);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank, c10::make_intrusive<ThreadExchange>(shared, rank));
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  threads.clear();
  for (const auto& error : errors) {
    if (error) {
      std::rethrow_exception(error);
    }
  }
  return shared->collectives;
}

}  // namespace lockstep::testing
