// lockstep-train: trains the small convnet on Fashion-MNIST, or on images that it makes itself.
#include <ATen/Parallel.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/data/datasets/fashion_mnist.h"
#include "lockstep/data/datasets/generated_images.h"
#include "lockstep/data/samplers/distributed_sampler.h"
#include "lockstep/models/convnet.h"
#include "lockstep/parallel/distributed_data_parallel.h"

namespace lockstep::cli {
namespace {

struct TrainOptions {
  std::string data;  // Empty: Debian's Fashion-MNIST if it is installed, else generated images.
  int nproc = 1;
  int epochs = 3;
  std::int64_t batch_size = 64;
  double learning_rate = 0.02;
  double momentum = 0.9;
  std::uint64_t seed = 0;
  std::string backend;
  int timeout_seconds = 1800;
};

struct Data {
  std::string name;
  data::ImageDataset train;
  data::ImageDataset test;
};

Data load(const TrainOptions& options) {
  const auto folder = options.data.empty() ? data::find_fashion_mnist() : options.data;
  if (folder) {
    return {*folder, data::fashion_mnist(*folder, data::Split::kTrain),
            data::fashion_mnist(*folder, data::Split::kTest)};
  }
  return {"generated images (for Fashion-MNIST, as root: apt-get install dataset-fashion-mnist)",
          data::generated_images({.size = 20'000, .seed = options.seed}),
          data::generated_images({.size = 2'000, .seed = options.seed + 1})};
}

std::span<const std::int64_t> part(const std::vector<std::int64_t>& indices, std::int64_t begin,
                                   std::int64_t size) {
  const auto all = static_cast<std::int64_t>(indices.size());
  return {indices.data() + begin, static_cast<std::size_t>(std::min(size, all - begin))};
}

template <class Model>
double train_epoch(DistributedDataParallel<Model>& ddp, torch::optim::SGD& optimizer,
                   const data::ImageDataset& images, const std::vector<std::int64_t>& indices,
                   const TrainOptions& options, at::Device device) {
  ddp.train();
  auto total = at::zeros({}, at::TensorOptions(at::kDouble).device(device));
  const auto size = static_cast<std::int64_t>(indices.size());
  for (std::int64_t begin = 0; begin < size; begin += options.batch_size) {
    const auto batch = images.batch(part(indices, begin, options.batch_size));
    optimizer.zero_grad();
    auto loss =
        torch::nn::functional::cross_entropy(ddp(batch.images.to(device)), batch.labels.to(device));
    loss.backward();
    optimizer.step();
    total += loss.detach() * static_cast<double>(batch.labels.size(0));
  }
  return total.item<double>() / static_cast<double>(size);
}

// Every image once, however many ranks there are.
template <class Model>
double accuracy(DistributedDataParallel<Model>& ddp, const data::ImageDataset& images,
                const Group& world, const TrainOptions& options, at::Device device) {
  const at::NoGradGuard no_grad;
  ddp.eval();
  const auto indices = data::EvaluationSampler(images.size(), world.size(), world.rank()).indices();
  auto right = at::zeros({1}, at::TensorOptions(at::kLong).device(device));
  for (std::size_t begin = 0; begin < indices.size();
       begin += static_cast<std::size_t>(options.batch_size)) {
    const auto batch =
        images.batch(part(indices, static_cast<std::int64_t>(begin), options.batch_size));
    // Not through ddp: ranks may have different numbers of batches here.
    const auto guess = ddp->forward(batch.images.to(device)).argmax(1);
    right += guess.eq(batch.labels.to(device)).sum();
  }
  world.all_reduce(right).wait();
  return 100.0 * static_cast<double>(right.item<std::int64_t>()) /
         static_cast<double>(images.size());
}

// Of images that the network does not take, LibTorch would say it in its own words, much later.
void require_usable(const data::ImageDataset& images, const std::string& what,
                    const std::string& from) {
  const auto& sizes = images.images().sizes();
  if (images.size() == 0 || sizes[1] != 1 || sizes[2] != 28 || sizes[3] != 28) {
    throw IoError("the " + what + " images in '" + from + "' are " + std::to_string(images.size()) +
                  " of " + std::to_string(sizes[1]) + "x" + std::to_string(sizes[2]) + "x" +
                  std::to_string(sizes[3]) + ", expected at least one, of 1x28x28");
  }
}

void train(const TrainOptions& options) {
  auto world = init_process_group(
      {.backend = options.backend, .timeout = std::chrono::seconds(options.timeout_seconds)});
  const auto device = world.device();
  const Data data = load(options);
  require_usable(data.train, "training", data.name);
  require_usable(data.test, "test", data.name);
  const bool talks = world.rank() == 0;
  if (talks) {
    std::printf("%s\n%lld training and %lld test images from %s\n", world.description().c_str(),
                static_cast<long long>(data.train.size()), static_cast<long long>(data.test.size()),
                data.name.c_str());
    std::fflush(stdout);
  }
  torch::manual_seed(options.seed);
  auto model = models::convnet({.num_classes = data.train.num_classes()});
  model->to(device);
  DistributedDataParallel ddp(model, world);
  torch::optim::SGD optimizer(
      ddp.parameters(), torch::optim::SGDOptions(options.learning_rate).momentum(options.momentum));
  data::DistributedSampler sampler(data.train.size(), world.size(), world.rank(),
                                   {.seed = options.seed});
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    sampler.set_epoch(epoch);
    const double loss = train_epoch(ddp, optimizer, data.train, sampler.indices(), options, device);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    const double percent = accuracy(ddp, data.test, world, options, device);
    if (talks) {
      std::printf("epoch %d of %d: loss %.4f, accuracy %.2f %%, %.0f images/s\n", epoch + 1,
                  options.epochs, loss, percent,
                  static_cast<double>(sampler.size() * world.size()) / taken.count());
      std::fflush(stdout);
    }
  }
}

void start(const TrainOptions& options) {
  if (options.nproc == 1) {
    train(options);
    return;
  }
  if (std::getenv("RANK") != nullptr) {
    throw UsageError(
        "--nproc starts ranks, but this process is one already (RANK is set); leave "
        "it out under a launcher");
  }
  spawn(options.nproc, [&](int) {
    at::set_num_threads(std::max(1, usable_cores() / options.nproc));
    train(options);
  });
}

void add_flags(CLI::App& app, TrainOptions& options) {
  app.name("lockstep train");
  app.add_option("data", options.data,
                 "folder with MNIST-style files (train-images-idx3-ubyte[.gz], ...); Debian's "
                 "Fashion-MNIST if it is installed, else images that are generated");
  app.add_option("--nproc", options.nproc, "ranks to start on this machine")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--epochs", options.epochs)->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("-b,--batch-size", options.batch_size, "images per rank and step")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  app.add_option("--lr", options.learning_rate, "learning rate")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--momentum", options.momentum)
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of weights and order")->capture_default_str();
  app.add_option("--backend", options.backend, "gloo, shm, lockstep, nccl, mpi; found by itself");
  app.add_option("--timeout", options.timeout_seconds, "seconds to wait for a rank")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
}

int main_of(int argc, char** argv) {
  TrainOptions options;
  CLI::App app{
      "Trains a small convolutional network on images of 28x28, on as many ranks as there "
      "are: those of lockstep run, torchrun, srun, mpirun, or --nproc of its own."};
  add_flags(app, options);
  try {
    app.parse(argc, argv);
    if (!std::isfinite(options.learning_rate) || !std::isfinite(options.momentum)) {
      throw UsageError("--lr and --momentum: expected numbers");
    }
    start(options);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw IoError("what was to be printed could not be written");
    }
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "lockstep train: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep train: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace lockstep::cli

int main(int argc, char** argv) { return lockstep::cli::main_of(argc, argv); }
