// Our ranks and Gloo's in `lockstep bench allreduce`, which starts them.
//
//   lockstep run --nproc-per-node 2 allreduce_ranks BACKEND PIPE LARGEST_BYTES [SPOILED]
//
// SPOILED names a contender whose result is made wrong on the last rank, to see that it is noticed.
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <fcntl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "benchmarks/allreduce/contenders.h"
#include "benchmarks/allreduce/job.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/text/text.h"
#include "lockstep/comm/init_process_group.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Without leaving the group: the others would fail before the reason has been said.
[[noreturn]] void give_up(const std::string& reason) {
  const char* rank = std::getenv("RANK");
  std::fprintf(stderr, "allreduce_ranks on rank %s: %s\n", rank == nullptr ? "?" : rank,
               reason.c_str());
  std::_Exit(1);
}

class Ranks {
 public:
  Ranks(const std::string& backend, std::size_t largest_bytes, std::string spoiled)
      : group_(init_process_group({.backend = backend, .timeout = std::chrono::minutes(5)})),
        contenders_(contenders_of(group_, backend, largest_bytes / sizeof(float))),
        spoiled_(std::move(spoiled)) {}

  void carry_out(const Order& order) {
    const Contender& contender = find(order.contender);
    const std::size_t count = order.bytes / sizeof(float);
    const auto operation = contender.operation(count);
    std::vector<double> seconds;
    std::int64_t checked = 0;
    for (int i = 0; i < order.repetitions; ++i, ++operation_) {
      fill(contender.input, count, group_.rank(), operation_);
      seconds.push_back(timed(contender, operation));
      if (spoiled_ == contender.name && group_.rank() == group_.size() - 1) {
        contender.output[count - 1] += 1;
      }
      check(contender, count);
      ++checked;
    }
    report(order, over_all_ranks(checked, ReduceOp::kSum), seconds);
  }

 private:
  const Contender& find(const std::string& name) const {
    for (const auto& contender : contenders_) {
      if (contender.name == name) {
        return contender;
      }
    }
    throw UsageError("there is no contender '" + name + "'");
  }

  double timed(const Contender& contender, const std::function<void()>& operation) const {
    contender.barrier();
    const auto start = Clock::now();
    operation();
    auto end = Clock::now();
    if (contender.is_limit) {
      const auto latest = over_all_ranks(end.time_since_epoch().count(), ReduceOp::kMax);
      end = Clock::time_point(Clock::duration(latest));
    }
    return std::chrono::duration<double>(end - start).count();
  }

  void check(const Contender& contender, std::size_t count) const {
    for (const std::size_t i : {std::size_t{0}, count / 2, count - 1}) {
      const float expected = contender.expected(operation_, i);
      if (contender.output[i] != expected) {
        give_up(contender.name + ", " + std::to_string(count * sizeof(float)) + " bytes: element " +
                std::to_string(i) + " is " + std::to_string(contender.output[i]) + ", expected " +
                std::to_string(expected));
      }
    }
  }

  [[nodiscard]] std::int64_t over_all_ranks(std::int64_t value, ReduceOp op) const {
    const auto tensor = at::full({1}, value, at::kLong);
    group_.all_reduce(tensor, {.op = op}).wait();
    return tensor.item<std::int64_t>();
  }

  void report(const Order& order, std::int64_t checked, const std::vector<double>& seconds) const {
    if (group_.rank() != 0) {
      return;
    }
    std::vector<std::string> texts;
    for (const double value : seconds) {
      char text[32];
      std::snprintf(text, sizeof text, "%.9f", value);
      texts.emplace_back(text);
    }
    std::printf("{\"contender\": \"%s\", \"bytes\": %zu, \"checked\": %lld, \"seconds\": [%s]}\n",
                order.contender, order.bytes, static_cast<long long>(checked),
                join(texts, ", ").c_str());
    std::fflush(stdout);
  }

  Group group_;
  std::vector<Contender> contenders_;
  std::string spoiled_;
  long operation_ = 0;
};

void run(int argc, char** argv) {
  const auto largest = argc < 4 ? std::nullopt : parse_int(argv[3]);
  if (!largest) {
    throw UsageError("usage: allreduce_ranks BACKEND PIPE LARGEST_BYTES [SPOILED]");
  }
  const UniqueFd orders(::open(argv[2], O_RDONLY | O_CLOEXEC));
  if (!orders) {
    throw_errno(std::string("opening '") + argv[2] + "'");
  }
  at::set_num_threads(1);
  Ranks ranks(argv[1], static_cast<std::size_t>(*largest), argc > 4 ? argv[4] : "");
  Order order{};
  int got = 0;
  while ((got = read_order(orders.get(), &order)) > 0) {
    ranks.carry_out(order);
  }
  if (got < 0) {
    throw Error("what it was told is no order");
  }
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  try {
    lockstep::bench::run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    lockstep::bench::give_up(error.what());
  }
}
