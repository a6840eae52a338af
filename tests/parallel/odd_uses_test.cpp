// What programs do besides one forward and one backward per step.
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "tests/parallel/nets.h"

namespace lockstep {
namespace {

using testing::Branches;
using ::testing::HasSubstr;
using testing::input_of;
using testing::run_ranks;
using testing::same_on_all_ranks;
using ::testing::ThrowsMessage;

TEST(OddUses, ARankWhoseStepFailedMayNotGoOnBesideTheOthers) {
  for (const char* backend : {"shm", "gloo"}) {
    run_ranks(
        2,
        [](Group& world) {
          auto net = std::make_shared<Branches>();
          auto ddp = std::make_unique<DistributedDataParallel<Branches>>(
              net, world,
              DistributedDataParallelOptions{.bucket_cap_mb_list = {1e-5}});  // One each.
          EXPECT_THROW((*ddp)(input_of(0), 2).second.sum().backward(), UsageError);
          EXPECT_THAT(
              [&] { (*ddp)(input_of(0), 2); },
              ThrowsMessage<UsageError>(HasSubstr("form a new group and wrap the module again")));
          const auto again = world.new_group({0, 1});
          ddp = std::make_unique<DistributedDataParallel<Branches>>(net, again);
          net->zero_grad();
          const auto out = (*ddp)(input_of(0), 2);
          (out.first.sum() + out.second.sum()).backward();
          EXPECT_TRUE(net->first->bias.grad().equal(at::full({2}, 8.F)));
        },
        backend);
  }
}

TEST(OddUses, AnErrorInBackwardIsToldInTheNextForward) {
  const auto world = init_process_group();
  torch::nn::Linear net(4, 2);
  DistributedDataParallel ddp(net, world);
  net->weight.register_hook([](const at::Tensor&) { throw std::runtime_error("of the user's"); });
  EXPECT_THROW(ddp(input_of(0)).sum().backward(), std::runtime_error);
  EXPECT_THAT([&] { ddp(input_of(0)); },
              ThrowsMessage<UsageError>(HasSubstr("an error ended its backward")));
}

TEST(OddUses, APointerToNothingIsAnError) {
  EXPECT_THAT([] { DistributedDataParallel(std::shared_ptr<Branches>(), init_process_group()); },
              ThrowsMessage<UsageError>(HasSubstr("null")));
}

// Computes gradients of its own, whatever the caller wants.
struct Forces : torch::nn::Module {
  Forces() { register_module("net", net); }
  at::Tensor forward(const at::Tensor& input) {
    const at::AutoGradMode on(true);
    return net->forward(input);
  }
  torch::nn::Linear net{4, 2};
};

TEST(OddUses, AModuleMayTurnGradientsOnItself) {
  const auto world = init_process_group();
  auto net = std::make_shared<Forces>();
  DistributedDataParallel ddp(net, world, {.find_unused_parameters = true});
  const at::NoGradGuard no_grad;
  EXPECT_EQ(ddp(input_of(0)).numel(), 16);
}

TEST(OddUses, AnOutputMayOutliveTheWrapper) {
  const auto world = init_process_group();
  torch::nn::Linear net(4, 2);
  at::Tensor output;
  {
    DistributedDataParallel ddp(net, world, {.find_unused_parameters = true});
    output = ddp(input_of(0));
    auto guard = ddp.no_sync();
    auto moved = std::move(ddp);
  }
  output.sum().backward();
  EXPECT_TRUE(net->bias.grad().equal(at::full({2}, 8.F)));
}

TEST(OddUses, AGradientPenaltyIsNoStep) {
  for (const auto& options : {DistributedDataParallelOptions{},
                              DistributedDataParallelOptions{.find_unused_parameters = true},
                              DistributedDataParallelOptions{.static_graph = true}}) {
    run_ranks(2, [&](Group& world) {
      torch::nn::Linear net(4, 2);
      DistributedDataParallel ddp(net, world, options);
      for (int step = 0; step < 3; ++step) {
        net->zero_grad();
        auto input = input_of(world.rank()).requires_grad_();
        const auto output = ddp(input);
        const auto gradient = torch::autograd::grad({output.square().sum()}, {input}, {},
                                                    /*retain_graph=*/true, /*create_graph=*/true);
        (output.mean() + gradient[0].square().mean()).backward();
        EXPECT_TRUE(same_on_all_ranks(world, net->weight.grad()));
      }
      EXPECT_EQ(ddp.stats().steps, 3);
    });
  }
}

TEST(OddUses, AStaticGraphMayHaveSeveralForwardsPerStep) {
  run_ranks(2, [](Group& world) {
    torch::nn::Linear net(4, 2);
    DistributedDataParallel ddp(net, world, {.static_graph = true});
    ddp(input_of(0));  // A trial, without a backward.
    for (int step = 0; step < 4; ++step) {
      net->zero_grad();
      const auto first = ddp(input_of(world.rank()));
      (first.sum() + ddp(input_of(3)).sum()).backward();
      EXPECT_TRUE(same_on_all_ranks(world, net->weight.grad()));
    }
    EXPECT_EQ(ddp.stats().steps, 4);
  });
}

TEST(OddUses, ReplicasAreComparedWhateverTheNumberOfForwards) {
  run_ranks(2, [](Group& world) {
    torch::nn::Linear net(4, 2);
    DistributedDataParallel ddp(net, world, {.check_replicas_every = 1});
    if (world.rank() == 1) {
      reinterpret_cast<int*>(net->weight.data_ptr<float>())[1] ^= 1;
    }
    auto sum = ddp(input_of(0)).sum();
    for (int i = 0; i < 3; ++i) {
      sum = sum + ddp(input_of(i)).sum();
    }
    EXPECT_THAT([&] { sum.backward(); }, ThrowsMessage<PeerError>(HasSubstr("'weight' differs")));
  });
}

TEST(OddUses, ASecondBackwardAfterTwoForwardsIsAnErrorThatNamesTheStep) {
  for (const auto& options : {DistributedDataParallelOptions{},
                              DistributedDataParallelOptions{.find_unused_parameters = true},
                              DistributedDataParallelOptions{.static_graph = true}}) {
    run_ranks(2, [&](Group& world) {
      torch::nn::Linear net(4, 2);
      DistributedDataParallel ddp(net, world, options);
      ddp(input_of(world.rank())).sum().backward();
      const auto first = ddp(input_of(world.rank()));
      const auto second = ddp(input_of(world.rank() + 3));
      first.sum().backward();
      EXPECT_THAT([&] { second.sum().backward(); },
                  ThrowsMessage<UsageError>(::testing::AllOf(
                      HasSubstr("after step 2 on rank " + std::to_string(world.rank())),
                      HasSubstr("forward that step 2 "), HasSubstr("add the losses"))));
    });
  }
}

TEST(OddUses, ASecondBackwardThroughTheSameOutputsIsAnError) {
  run_ranks(2, [](Group& world) {
    torch::nn::Linear net(4, 2);
    DistributedDataParallel ddp(net, world);
    const auto output = ddp(input_of(world.rank()));
    output.sum().backward({}, /*retain_graph=*/true);
    EXPECT_THAT([&] { output.square().sum().backward(); },
                ThrowsMessage<UsageError>(HasSubstr("forward that step 1 ")));
    // The program may go on, with a step and with a backward of none.
    net->zero_grad();
    ddp(input_of(world.rank())).sum().backward();
    EXPECT_TRUE(same_on_all_ranks(world, net->weight.grad()));
    net->forward(input_of(0)).sum().backward();
  });
}

// Each is what it seems to be.
TEST(OddUses, BackwardsThatBelongToNoStepStayLocal) {
  run_ranks(2, [](Group& world) {
    torch::nn::Linear net(4, 2);
    DistributedDataParallel ddp(net, world);
    auto kept = ddp(input_of(world.rank()));
    kept.sum().backward({}, /*retain_graph=*/true);
    // A penalty of the parameters alone, and the module itself.
    net->weight.square().sum().backward();
    net->forward(input_of(world.rank())).sum().backward();
    {
      const auto guard = ddp.no_sync();
      (ddp(input_of(world.rank())).sum() + kept.sum()).backward({}, /*retain_graph=*/true);
    }
    const auto gradient = torch::autograd::grad({kept.sum()}, {net->bias}, {},
                                                /*retain_graph=*/true);
    EXPECT_TRUE(gradient[0].equal(at::full({2}, 8.F)));
    // Through the graph of the step before, as a recurrent network goes.
    net->zero_grad();
    (ddp(input_of(world.rank())).sum() + kept.sum()).backward();
    EXPECT_TRUE(net->bias.grad().equal(at::full({2}, 16.F)));
    EXPECT_TRUE(same_on_all_ranks(world, net->weight.grad()));
    EXPECT_EQ(ddp.stats().steps, 2);
  });
}

TEST(OddUses, ForwardsWithoutABackwardAreNoStep) {
  run_ranks(2, [](Group& world) {
    torch::nn::Linear net(4, 2);
    DistributedDataParallel ddp(net, world);
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      ddp(input_of(1));  // Thrown away.
      const auto output = ddp(input_of(world.rank()));
      {
        const at::NoGradGuard no_grad;
        ddp.eval();
        ddp(input_of(2));
        ddp.train();
      }
      output.sum().backward();
      EXPECT_TRUE(same_on_all_ranks(world, net->weight.grad()));
    }
    EXPECT_EQ(ddp.stats().steps, 3);
  });
}

TEST(OddUses, AnErrorInForwardIsToldToTheOthers) {
  run_ranks(
      2,
      [](Group& world) {
        struct Failing : torch::nn::Module {
          Failing() { register_module("net", net); }
          at::Tensor forward(const at::Tensor& input, bool fail) {
            if (fail) {
              throw std::runtime_error("no such image");
            }
            return net->forward(input);
          }
          torch::nn::Linear net{4, 2};
        };
        auto net = std::make_shared<Failing>();
        auto ddp = std::make_unique<DistributedDataParallel<Failing>>(net, world);
        if (world.rank() == 1) {
          EXPECT_THROW((*ddp)(input_of(0), true), std::runtime_error);
          world.destroy();
        } else {
          EXPECT_THAT([&] { (*ddp)(input_of(0), false).sum().backward(); },
                      ThrowsMessage<PeerError>(HasSubstr("rank 1 had failed: no such image")));
        }
      },
      "shm");
}

TEST(OddUses, AnExpandedBufferIsNamed) {
  struct Expanded : torch::nn::Module {
    Expanded() {
      register_module("net", net);
      register_buffer("mask", at::ones({1}).expand({5}));
    }
    at::Tensor forward(const at::Tensor& input) { return net->forward(input); }
    torch::nn::Linear net{4, 2};
  };
  Expanded net;
  EXPECT_THAT([&] { DistributedDataParallel(net, init_process_group()); },
              ThrowsMessage<UsageError>(
                  ::testing::AllOf(HasSubstr("on rank 0 of 1"), HasSubstr("'mask'"))));
}

TEST(OddUses, ArgumentsGoThroughAsTheyAre) {
  struct Stateful : torch::nn::Module {
    Stateful() { register_module("net", net); }
    at::Tensor forward(at::TensorList inputs, std::vector<at::Tensor>& state,
                       std::unique_ptr<int> n) {
      state.push_back(inputs[0]);
      return net->forward(inputs[0]) * *n;
    }
    torch::nn::Linear net{4, 2};
  };
  Stateful net;
  DistributedDataParallel ddp(net, init_process_group());
  std::vector<at::Tensor> state;
  const std::vector<at::Tensor> inputs{input_of(0)};
  ddp(at::TensorList(inputs), state, std::make_unique<int>(2)).sum().backward();
  EXPECT_EQ(state.size(), 1);
}

}  // namespace
}  // namespace lockstep
