// What is ours in `lockstep bench checkpoint`: saves some tensors, and copies them for comparison.
//
//   checkpoint_job PIPE FOLDER MEGABYTES    carries out orders, see benchmarks/orders.h
//
// Orders: "memcpy" copies the tensors into memory that was used before; "save" saves them; its
// pause is the time until training may go on, its seconds that until the file is on the disk.
#include <ATen/ops/rand.h>
#include <fcntl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "benchmarks/orders.h"
#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/text/text.h"
#include "lockstep/train/checkpoint/checkpoint_writer.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

class Job {
 public:
  Job(const std::string& folder, std::int64_t megabytes) : writer_(folder) {
    constexpr std::int64_t kTensors = 100;
    for (std::int64_t i = 0; i < kTensors; ++i) {
      checkpoint_.model.emplace_back("layer" + std::to_string(i),
                                     at::rand({megabytes * 1'000'000 / 4 / kTensors}));
      bytes_ += checkpoint_.model.back().second.nbytes();
    }
    copy_.resize(bytes_);
  }

  json memcpy_all() {
    const auto began = Clock::now();
    std::byte* to = copy_.data();
    for (const auto& [name, tensor] : checkpoint_.model) {
      std::memcpy(to, tensor.const_data_ptr(), tensor.nbytes());
      to += tensor.nbytes();
    }
    const double seconds = seconds_since(began);
    return {{"seconds", seconds}, {"pause", seconds}, {"bytes", bytes_}};
  }

  json save() {
    const auto began = Clock::now();
    writer_.save(checkpoint_);
    const double pause = seconds_since(began);
    writer_.wait();
    return {{"seconds", seconds_since(began)}, {"pause", pause}, {"bytes", bytes_}};
  }

 private:
  CheckpointWriter writer_;
  Checkpoint checkpoint_;
  std::size_t bytes_ = 0;
  std::vector<std::byte> copy_;
};

void carry_out_orders(const char* pipe, Job& job) {
  const UniqueFd orders(::open(pipe, O_RDONLY | O_CLOEXEC));
  char line[kOrderBytes + 1];
  int got = 0;
  while ((got = read_order_line(orders.get(), line)) == 1) {
    const std::string order(trim(line));
    if (order != "memcpy" && order != "save") {
      throw Error("'" + order + "' is no order");
    }
    std::printf("%s\n", (order == "save" ? job.save() : job.memcpy_all()).dump().c_str());
    std::fflush(stdout);
  }
  if (got < 0) {
    throw Error("an order is cut off");
  }
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) try {
  if (argc != 4) {
    throw lockstep::UsageError("expected PIPE FOLDER MEGABYTES");
  }
  lockstep::bench::Job job(argv[2], std::atoll(argv[3]));
  lockstep::bench::carry_out_orders(argv[1], job);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "checkpoint_job: %s\n", error.what());
  return 1;
}
