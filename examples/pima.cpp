// The Pima diabetes table: eight numbers of a person, and whether the disease was found. The
// network has a branch that takes part in every second step alone: find_unused_parameters.
//
//   pima TABLE.csv [RANKS]
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/comm/spawn.h"
#include "lockstep/data/datasets/combined_datasets.h"
#include "lockstep/data/datasets/table.h"
#include "lockstep/data/loader/data_loader.h"
#include "lockstep/data/samplers/random_samplers.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/optim/adam.h"

namespace {

struct Net : torch::nn::Module {
  explicit Net(std::int64_t features)
      : body(register_module("body", torch::nn::Linear(features, 16))),
        branch(register_module("branch", torch::nn::Linear(16, 16))),
        head(register_module("head", torch::nn::Linear(16, 2))) {}
  at::Tensor forward(const at::Tensor& rows, bool with_branch) {
    auto hidden = body(rows).relu();
    return head(with_branch ? hidden + branch(hidden).relu() : hidden);
  }
  torch::nn::Linear body, branch, head;
};

void train(const std::string& path) {
  auto world = lockstep::init_process_group();
  const auto table = lockstep::data::table_dataset(path);
  const auto features = (table.data() - table.data().mean(0)) / table.data().std(0).clamp_min(1e-6);
  const auto all = std::make_shared<lockstep::data::TensorDataset>(features, table.target());
  const auto parts = lockstep::data::random_split(all, std::vector<double>{0.8, 0.2},
                                                  lockstep::data::seeded_generator(0));
  torch::manual_seed(0);
  auto net = std::make_shared<Net>(features.size(1));
  lockstep::DistributedDataParallel ddp(net, world, {.find_unused_parameters = true});
  lockstep::optim::Adam optimizer(ddp.parameters(), {.lr = 0.01});

  lockstep::data::DistributedSampler sampler(parts[0].size(), world.size(), world.rank());
  lockstep::data::DataLoader loader(parts[0], {.batch_size = 16, .sampler = sampler});
  int step = 0;
  for (int epoch = 0; epoch < 10; ++epoch) {
    for (auto& [rows, labels] : loader) {
      const auto scores = ddp(rows, step++ % 2 == 0);
      torch::nn::functional::cross_entropy(scores, labels).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
  }

  // Each row exactly once over all ranks.
  const at::NoGradGuard no_grad;
  const lockstep::data::EvaluationSampler rows_of_rank(parts[1].size(), world.size(), world.rank());
  auto right = at::zeros({1}, at::kLong);
  for (const auto index : rows_of_rank.indices()) {
    const auto sample = parts[1].get(index);
    right += net->forward(sample.data.unsqueeze(0), true).argmax(1).eq(sample.target);
  }
  world.all_reduce(right).wait();
  if (world.rank() == 0) {
    std::printf("accuracy %.1f %% of %lld rows on %d ranks\n",
                100.0 * right.item<double>() / static_cast<double>(parts[1].size()),
                static_cast<long long>(parts[1].size()), world.size());
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 2;
  if (argc < 2 || argv[1][0] == '-' || ranks < 1) {
    throw lockstep::UsageError("expected a table and a number of ranks: pima TABLE.csv [RANKS]");
  }
  lockstep::spawn(ranks, [&](int) { train(argv[1]); });
} catch (const lockstep::Error& error) {
  std::fprintf(stderr, "pima: %s\n", error.what());
  return 1;
}
