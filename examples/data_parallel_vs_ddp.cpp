// DataParallel and DistributedDataParallel train one network; where does the time of a step go?
//
//   build/bin/examples/data_parallel_vs_ddp [REPLICAS [STEPS]]
#include <c10/core/CachingDeviceAllocator.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <torch/cuda.h>
#include <torch/nn/functional/loss.h>
#include <torch/utils.h>

#include <charconv>
#include <cstdio>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/models/resnet.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/optim/sgd.h"

namespace {

constexpr int kMost = 16;
constexpr int kBatch = 32;  // Over all replicas.

// Milliseconds of a step; MiB of each device or rank.
struct Result {
  lockstep::DataParallelTimes parts;
  double forward = 0;
  double backward = 0;
  double optimizer = 0;
  std::optional<double> peak[kMost] = {};
  [[nodiscard]] double step() const { return forward + backward + optimizer; }
};

// What the processes below leave; the first one chooses the devices of all.
struct Shared {
  Result data_parallel;
  Result ddp;
  bool on_gpus = false;
};

double peak_mebibytes(at::Device device) {
  if (device.is_cuda()) {
    const auto stats = at::getDeviceAllocator(at::kCUDA)->getDeviceStats(device.index());
    return static_cast<double>(stats.allocated_bytes[0].peak) / (1 << 20);
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// `part` of `parts` of each batch.
template <class Model>
void train(Model& model, at::Device device, int steps, int part, int parts, Result& result) {
  lockstep::optim::SGD optimizer(model.module()->parameters(), {.lr = 0.01});
  const auto images = torch::rand({kBatch, 3, 64, 64}).tensor_split(parts)[part].to(device);
  const auto labels = torch::randint(10, {kBatch}).tensor_split(parts)[part].to(device);
  lockstep::parallel::Stopwatch watch;
  const auto lap = [&] {
    device.is_cuda() ? torch::cuda::synchronize() : void();
    return 1000 * watch.lap() / steps;
  };
  for (int i = -1; i < steps; ++i) {  // The first one warms up.
    if (i == 0) {
      result = {};
    }
    optimizer.zero_grad();
    lap();
    const auto loss = torch::nn::functional::cross_entropy(model(images), labels);
    result.forward += lap();
    loss.backward();
    result.backward += lap();
    optimizer.step();
    result.optimizer += lap();
    if constexpr (requires { model.times(); }) {
      result.parts.replicate += 1000 * model.times().replicate / steps;
      result.parts.scatter += 1000 * model.times().scatter / steps;
      result.parts.gather += 1000 * model.times().gather / steps;
    }
  }
}

auto make_network() {
  torch::manual_seed(1);
  return lockstep::models::resnet18({.num_classes = 10});
}

std::string cell(std::optional<double> value) {
  char text[32] = "-";
  if (value) {
    std::snprintf(text, sizeof text, "%.1f", *value);
  }
  return text;
}

void row(const char* name, std::optional<double> data_parallel, std::optional<double> ddp) {
  std::printf("%-24s %12s %12s\n", name, cell(data_parallel).c_str(), cell(ddp).c_str());
}

constexpr const char* kUsage =
    "usage: data_parallel_vs_ddp [REPLICAS [STEPS]]\n"
    "Trains a ResNet-18 with DataParallel on REPLICAS devices (1 to 16, 2 by default), then with\n"
    "DistributedDataParallel on as many ranks, STEPS steps each (5 by default), and prints where\n"
    "the time of a step goes. GPUs are used if there are that many, else the CPU.\n";

int number(const char* name, const std::string& text, int most) {
  int value = 0;
  const auto* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < 1 || value > most) {
    throw lockstep::UsageError(std::string(name) + " is '" + text +
                               "', expected a whole number from 1 to " + std::to_string(most) +
                               "; see --help");
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && (words[0] == "--help" || words[0] == "-h")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (words.size() > 2) {
    throw lockstep::UsageError(std::to_string(words.size()) +
                               " arguments, expected at most 2; see --help");
  }
  const int replicas = words.empty() ? 2 : number("REPLICAS", words[0], kMost);
  const int steps = words.size() < 2 ? 5 : number("STEPS", words[1], 1'000'000);
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  auto* const shared = new (memory) Shared;
  auto& dp = shared->data_parallel;
  auto& ddp = shared->ddp;
  bool& on_gpus = shared->on_gpus;

  lockstep::spawn(1, [&](int /*rank*/) {
    on_gpus = static_cast<int>(torch::cuda::device_count()) >= replicas;  // For the ranks, too.
    std::vector<at::Device> devices;
    for (int i = 0; i < replicas; ++i) {
      devices.push_back(on_gpus ? at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(i))
                                : at::Device(at::kCPU));
    }
    const auto net = make_network();
    net->to(devices[0]);
    lockstep::DataParallel model(net, {.device_ids = devices});
    train(model, devices[0], steps, 0, 1, dp);
    // Replicas on the CPU share the memory of this process.
    for (int i = 0; i < (on_gpus ? replicas : 1); ++i) {
      dp.peak[i] = peak_mebibytes(devices[i]);
    }
  });
  lockstep::spawn(replicas, [&](int rank) {
    auto world = lockstep::init_process_group({.backend = on_gpus ? "" : "lockstep"});
    const auto device = on_gpus ? world.device() : at::Device(at::kCPU);
    const auto net = make_network();
    net->to(device);
    lockstep::DistributedDataParallel model(net, world);
    Result own;
    train(model, device, steps, rank, replicas, own);
    if (rank == 0) {
      ddp = own;
    }
    world.barrier();
    ddp.peak[rank] = peak_mebibytes(device);
  });

  std::printf("ResNet-18, %d images of 64 pixels a step, %d replicas or ranks on %s\n\n", kBatch,
              replicas, on_gpus ? "GPUs" : "the CPU");
  std::printf("%-24s %12s %12s\n", "ms a step", "DataParallel", "DDP");
  row("  replicate", dp.parts.replicate, 0);
  row("  scatter", dp.parts.scatter, 0);
  row("  forward", dp.forward - dp.parts.replicate - dp.parts.scatter - dp.parts.gather,
      ddp.forward);
  row("  gather", dp.parts.gather, 0);
  row("  backward", dp.backward, ddp.backward);
  row("  optimizer", dp.optimizer, ddp.optimizer);
  row("all of it", dp.step(), ddp.step());
  row("images/s", kBatch * 1000 / dp.step(), kBatch * 1000 / ddp.step());
  for (int i = 0; i < replicas; ++i) {
    row(("peak MiB, device or rank " + std::to_string(i)).c_str(), dp.peak[i], ddp.peak[i]);
  }
} catch (const lockstep::UsageError& error) {
  std::fprintf(stderr, "data_parallel_vs_ddp: %s\n", error.what());
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "data_parallel_vs_ddp: %s\n", error.what());
  return 1;
}
