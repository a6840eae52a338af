// Our ranks in `lockstep bench step`, which starts them.
//
//   lockstep run --nproc-per-node 2 step_ranks BACKEND PIPE MODEL BATCH_SIZE DEVICE [WORD...]
//   step_ranks plain PIPE MODEL BATCH_SIZE DEVICE [WORD...]
//
// BACKEND is that of the group that DistributedDataParallel gets; "plain" means one process with
// neither, "barrier" a group that only meets after each step. WORD is cuda-graph, fp32, tf32,
// reduce-alone, spoiled, bf16-hook, power_sgd-hook, zero, in_backward, or replicas=N: see
// TrainingOptions. Orders come as benchmarks/orders.h says:
//
//   check N        N steps; the answer has their losses
//   time WARM N    WARM steps, then N whose time is taken, with weights as they are now; the answer
//                  has the seconds of each (on a GPU, where steps overlap, of all together divided
//                  by N), the last loss, and the memory of this rank
#include <ATen/Parallel.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <fcntl.h>
#include <torch/cuda.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "benchmarks/orders.h"
#include "benchmarks/step/training.h"
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
  std::fprintf(stderr, "step_ranks on rank %s: %s\n", rank == nullptr ? "0" : rank, reason.c_str());
  std::_Exit(1);
}

// VmHWM of this process; getrusage() would include the program that started it.
std::int64_t peak_host_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) {
      return std::strtoll(line.c_str() + 6, nullptr, 10) * 1024;
    }
  }
  throw IoError("/proc/self/status has no VmHWM");
}

std::int64_t peak_gpu_bytes() {
  const auto stats = at::getDeviceAllocator(at::kCUDA)->getDeviceStats(0);
  return stats.allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)]
      .peak;
}

class Ranks {
 public:
  Ranks(const TrainingOptions& options, const std::optional<Group>& group)
      : cuda_(options.cuda), is_first_(!group || group->rank() == 0), training_(options, group) {}

  void carry_out(const std::string& line) {
    int warm = 0;
    int steps = 0;
    if (std::sscanf(line.c_str(), "check %d", &steps) == 1) {
      say(check(steps));
    } else if (std::sscanf(line.c_str(), "time %d %d", &warm, &steps) == 2) {
      say(time(warm, steps));
    } else {
      throw Error("'" + std::string(trim(line)) + "' is no order");
    }
  }

 private:
  nlohmann::json check(int steps) {
    nlohmann::json losses = nlohmann::json::array();
    for (int i = 0; i < steps; ++i) {
      losses.push_back(training_.step().item<double>());
    }
    return {{"losses", losses}};
  }

  nlohmann::json time(int warm, int steps) {
    training_.hold_weights();
    at::Tensor loss;
    for (int i = 0; i < warm; ++i) {
      loss = training_.step();
    }
    const auto before = training_.stats();
    std::vector<double> seconds;
    const auto run = [&] { loss = training_.step(); };
    if (cuda_) {
      torch::cuda::synchronize();
      seconds.push_back(timed([&] {
                          for (int i = 0; i < steps; ++i) {
                            run();
                          }
                          torch::cuda::synchronize();
                        }) /
                        steps);
    } else {
      for (int i = 0; i < steps; ++i) {
        seconds.push_back(timed(run));
      }
    }
    nlohmann::json answer{{"seconds", seconds},
                          {"loss", loss.item<double>()},
                          {"peak_bytes", cuda_ ? peak_gpu_bytes() : peak_host_bytes()},
                          {"optimizer_bytes", training_.optimizer_bytes()}};
    if (auto stats = training_.stats()) {
      stats->communication_seconds -= before->communication_seconds;
      stats->waiting_seconds -= before->waiting_seconds;
      answer.update({{"bytes", stats->bytes},
                     {"copied", stats->copied},
                     {"buckets", stats->buckets},
                     {"hidden", stats->hidden()}});
    }
    return answer;
  }

  template <class Work>
  static double timed(const Work& work) {
    const auto start = Clock::now();
    work();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  void say(const nlohmann::json& answer) const {
    if (is_first_) {
      std::printf("%s\n", answer.dump().c_str());
      std::fflush(stdout);
    }
  }

  bool cuda_;
  bool is_first_;
  Training training_;
};

std::string variant_of(const std::set<std::string>& words) {
  return words.contains("bf16-hook")        ? "bf16"
         : words.contains("power_sgd-hook") ? "power_sgd"
         : words.contains("zero")           ? "zero"
         : words.contains("in_backward")    ? "in_backward"
                                            : "";
}

std::string precision_of(const std::set<std::string>& words) {
  return words.contains("fp32")   ? "fp32"
         : words.contains("tf32") ? "tf32"
         : words.contains("fp16") ? "fp16"
                                  : "bf16";
}

int replicas_of(const std::set<std::string>& words) {
  const std::string name = "replicas=";
  for (const auto& word : words) {
    if (word.starts_with(name)) {
      return static_cast<int>(parse_int(word.substr(name.size())).value_or(1));
    }
  }
  return 1;
}

void run(int argc, char** argv) {
  const auto batch_size = argc < 6 ? std::nullopt : parse_int(argv[4]);
  if (!batch_size) {
    throw UsageError("usage: step_ranks BACKEND|plain PIPE MODEL BATCH_SIZE cpu|cuda [WORD...]");
  }
  const std::set<std::string> words(argv + 6, argv + argc);
  const std::string backend = argv[1];
  const bool barrier_only = backend == "barrier";
  const UniqueFd orders(::open(argv[2], O_RDONLY | O_CLOEXEC));
  if (!orders) {
    throw_errno(std::string("opening '") + argv[2] + "'");
  }
  // A rank has one core; replicas of DataParallel have one each, and all of them in backward.
  at::set_num_threads(replicas_of(words));
  std::optional<Group> group;
  if (backend != "plain") {
    group = init_process_group(
        {.backend = barrier_only ? "lockstep" : backend, .timeout = std::chrono::minutes(5)});
  }
  Ranks ranks({.model = argv[3],
               .batch_size = *batch_size,
               .cuda = argv[5] == std::string("cuda"),
               .precision = precision_of(words),
               .graphed = words.contains("cuda-graph"),
               .reduce_alone = words.contains("reduce-alone"),
               .spoiled = words.contains("spoiled"),
               .variant = variant_of(words),
               .replicas = replicas_of(words),
               .barrier_only = barrier_only},
              group);
  char line[kOrderBytes + 1];
  int got = 0;
  while ((got = read_order_line(orders.get(), line)) > 0) {
    ranks.carry_out(line);
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
