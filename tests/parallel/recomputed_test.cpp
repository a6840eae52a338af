// utils::checkpoint() inside a wrapped module: its gradients come from a backward inside another
// one. tests/parity compares it with PyTorch's.
#include <ATen/ops/allclose.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/recompute.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/parallel/nets.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::input_of;
using testing::run_ranks;
using ::testing::ThrowsMessage;

// `block` is in so many checkpoints; `rest` comes after them, or takes no part.
struct Recomputing : torch::nn::Module {
  Recomputing(int the_checkpoints, bool with_rest)
      : checkpoints(the_checkpoints), uses_rest(with_rest) {
    register_module("block", block);
    register_module("rest", rest);
  }
  at::Tensor forward(at::Tensor x) {
    for (int i = 0; i < checkpoints; ++i) {
      x = utils::checkpoint([this](const at::Tensor& in) { return block->forward(in).tanh(); }, x);
    }
    return uses_rest ? rest->forward(x) : x;
  }
  int checkpoints;
  bool uses_rest;
  torch::nn::Linear block{4, 4};
  torch::nn::Linear rest{4, 2};
};

TEST(Recomputed, UnusedParametersOfANetworkThatIsAllInCheckpointsAreNamed) {
  run_ranks(2, [](Group& world) {
    const auto net = std::make_shared<Recomputing>(1, /*with_rest=*/false);
    DistributedDataParallel ddp(net, world);
    EXPECT_THAT([&] { ddp(input_of(world.rank())).sum().backward(); },
                ThrowsMessage<UsageError>(AllOf(HasSubstr("2 of 4 parameters got no gradient"),
                                                HasSubstr("'rest.weight'"))));
  });
}

TEST(Recomputed, AStaticGraphMayHaveABlockInTwoCheckpoints) {
  run_ranks(2, [](Group& world) {
    const auto net = std::make_shared<Recomputing>(2, /*with_rest=*/true);
    DistributedDataParallel ddp(net, world, {.static_graph = true});
    for (int step = 0; step < 4; ++step) {
      net->zero_grad();
      net->forward(input_of(0)).sum().backward();
      net->forward(input_of(1)).sum().backward();
      const auto expected = net->block->weight.grad().div(2);
      net->zero_grad();
      ddp(input_of(world.rank())).sum().backward();
      EXPECT_TRUE(at::allclose(net->block->weight.grad(), expected, 1e-5, 1e-6)) << step;
    }
    EXPECT_EQ(ddp.stats().steps, 4);
  });
}

// Everything is in checkpoints: `block` in the first and in the last one.
struct Sandwich : torch::nn::Module {
  Sandwich() {
    register_module("block", block);
    register_module("middle", middle);
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto outer = [this](const at::Tensor& in) { return block->forward(in).tanh(); };
    const auto inner = [this](const at::Tensor& in) { return middle->forward(in); };
    return utils::checkpoint(outer, utils::checkpoint(inner, utils::checkpoint(outer, x)));
  }
  torch::nn::Linear block{4, 4};
  torch::nn::Linear middle{4, 4};
};

// All gradients are there, and sent, when the second one of `block` comes.
TEST(Recomputed, ABlockInTheFirstAndTheLastCheckpointIsRefused) {
  run_ranks(2, [](Group& world) {
    const auto net = std::make_shared<Sandwich>();
    DistributedDataParallel ddp(net, world);
    EXPECT_THAT([&] { ddp(input_of(world.rank())).sum().backward(); },
                ThrowsMessage<UsageError>(
                    AllOf(HasSubstr("'block."), HasSubstr("twice"), HasSubstr("static_graph"))));
  });
}

// No graph leads from the outputs to what a checkpoint computes, so it looks unused; in PyTorch
// too.
TEST(Recomputed, FindUnusedParametersIsAnErrorThatSaysWhatToSet) {
  const auto world = init_process_group();
  const auto net = std::make_shared<Recomputing>(1, /*with_rest=*/true);
  DistributedDataParallel ddp(net, world, {.find_unused_parameters = true});
  EXPECT_THAT([&] { ddp(input_of(0)).sum().backward(); },
              ThrowsMessage<UsageError>(
                  AllOf(HasSubstr("'block."), HasSubstr("twice"), HasSubstr("static_graph"))));
}

}  // namespace
}  // namespace lockstep
