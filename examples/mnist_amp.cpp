// MNIST-size images with mixed precision, and a driver that starts one process for each GPU, or
// CPU slot, of each machine:
//
//   mnist_amp --nodes 2 --gpus 4 --nr 0 --epochs 3 --master 10.0.0.1:29500    # on machine 0
//   mnist_amp --nodes 2 --gpus 4 --nr 1 --epochs 3 --master 10.0.0.1:29500    # on machine 1
//
// --data FOLDER has MNIST's files; without it images are generated.
#include <torch/nn/functional/loss.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/data/datasets/fashion_mnist.h"
#include "lockstep/data/datasets/generated_images.h"
#include "lockstep/data/loader/data_loader.h"
#include "lockstep/models/convnet.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/amp/autocast.h"
#include "lockstep/train/amp/grad_scaler.h"
#include "lockstep/train/optim/sgd.h"

namespace {

struct Options {
  int nodes = 1;
  int gpus = 1;
  int nr = 0;
  int epochs = 1;
  std::string master = "127.0.0.1:29500";
  std::string data;
};

constexpr const char* kUsage =
    "usage: mnist_amp [--nodes N] [--gpus N] [--nr N] [--epochs N] [--master HOST:PORT] "
    "[--data FOLDER]\n";

int whole_number(const std::string& flag, const std::string& text) {
  int value = 0;
  const auto* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < (flag == "--nr" ? 0 : 1)) {
    throw lockstep::UsageError(flag + " is '" + text + "', expected a whole number from " +
                               (flag == "--nr" ? "0" : "1") + " on; " + kUsage);
  }
  return value;
}

Options parse(int argc, char** argv) {
  Options options;
  const std::map<std::string, int*> numbers{{"--nodes", &options.nodes},
                                            {"--gpus", &options.gpus},
                                            {"--nr", &options.nr},
                                            {"--epochs", &options.epochs}};
  const std::map<std::string, std::string*> texts{{"--master", &options.master},
                                                  {"--data", &options.data}};
  for (int i = 1; i < argc; i += 2) {
    const auto number = numbers.find(argv[i]);
    const auto text = texts.find(argv[i]);
    if (number == numbers.end() && text == texts.end()) {
      throw lockstep::UsageError(std::string("there is no flag '") + argv[i] + "'; " + kUsage);
    }
    if (i + 1 == argc) {
      throw lockstep::UsageError(std::string(argv[i]) + " has no value; " + kUsage);
    }
    if (number != numbers.end()) {
      *number->second = whole_number(argv[i], argv[i + 1]);
    } else {
      *text->second = argv[i + 1];
    }
  }
  return options;
}

lockstep::Group join(const Options& options, int local_rank) {
  if (options.nodes == 1) {
    return lockstep::init_process_group();  // spawn(), or a launcher, has said who is who.
  }
  lockstep::InitOptions init;
  init.init_method = "tcp://" + options.master;
  init.world_size = options.nodes * options.gpus;
  init.rank = options.nr * options.gpus + local_rank;
  return lockstep::init_process_group(init);
}

lockstep::data::ImageDataset images(const Options& options, lockstep::data::Split split) {
  const bool train = split == lockstep::data::Split::kTrain;
  return options.data.empty() ? lockstep::data::generated_images(
                                    {.size = train ? 400 : 100, .seed = train ? 0U : 1U})
                              : lockstep::data::fashion_mnist(options.data, split);
}

void train(const Options& options, int local_rank) {
  auto world = join(options, local_rank);
  const auto device = world.device();
  torch::manual_seed(0);
  auto net = lockstep::models::convnet();
  net->to(device);
  lockstep::DistributedDataParallel ddp(net, world);
  lockstep::optim::SGD optimizer(ddp.parameters(), {.lr = 0.01, .momentum = 0.9});
  lockstep::amp::GradScaler scaler({.enabled = device.is_cuda()});  // bfloat16 needs none.

  const auto dataset = images(options, lockstep::data::Split::kTrain);
  lockstep::data::DistributedSampler sampler(dataset.size(), world.size(), world.rank());
  lockstep::data::DataLoader loader(dataset, {.batch_size = 50, .sampler = sampler});
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    double last = 0;
    for (auto& [data, labels] : loader) {
      at::Tensor loss;
      {
        const lockstep::amp::Autocast autocast(device.type());
        loss = torch::nn::functional::cross_entropy(ddp(data.to(device)), labels.to(device));
      }
      scaler.scale(loss).backward();  // Gradients are averaged over the ranks while this runs.
      scaler.step(optimizer);
      scaler.update();
      optimizer.zero_grad();
      last = loss.item<double>();
    }
    if (world.rank() == 0) {
      std::printf("epoch %d of %d on %d ranks: loss %.4f\n", epoch + 1, options.epochs,
                  world.size(), last);
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 1 && std::string_view(argv[1]) == "--help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const Options options = parse(argc, argv);
  if (std::getenv("RANK") != nullptr) {  // lockstep run or torchrun has started all ranks.
    train(options, 0);
  } else {
    lockstep::spawn(options.gpus, [&](int local_rank) { train(options, local_rank); });
  }
} catch (const lockstep::Error& error) {
  std::fprintf(stderr, "mnist_amp: %s\n", error.what());
  return 1;
}
