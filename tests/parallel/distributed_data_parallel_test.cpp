#include "lockstep/parallel/distributed_data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "lockstep/base/error.h"
#include "lockstep/device/graphed_step.h"
#include "tests/parallel/nets.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using testing::Branches;
using ::testing::HasSubstr;
using testing::input_of;
using testing::run_ranks;
using testing::same_on_all_ranks;
using ::testing::ThrowsMessage;

TEST(DistributedDataParallel, StartsAllRanksWithRank0sParametersAndBuffers) {
  run_ranks(2, [](Group& world) {
    torch::manual_seed(static_cast<std::uint64_t>(world.rank()));
    torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3));
    net->parameters()[1].set_requires_grad(false);
    net->buffers()[0].fill_(world.rank() + 1);
    const DistributedDataParallel ddp(net, world);
    for (const auto& tensor : ddp.parameters()) {
      EXPECT_TRUE(same_on_all_ranks(world, tensor));
    }
    EXPECT_EQ(ddp.buffers()[0][0].item<float>(), 1);
  });
}

TEST(DistributedDataParallel, LeavesAloneWhatItIsToldTo) {
  run_ranks(2, [](Group& world) {
    torch::manual_seed(static_cast<std::uint64_t>(world.rank()));
    torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::Linear(3, 2));
    DistributedDataParallel ddp(net, world, {.parameters_to_ignore = {"0.weight"}});
    EXPECT_FALSE(same_on_all_ranks(world, net->parameters()[0]));
    EXPECT_TRUE(same_on_all_ranks(world, net->parameters()[1]));
    ddp(input_of(world.rank())).sum().backward();
    EXPECT_FALSE(same_on_all_ranks(world, net->parameters()[0].grad()));
    EXPECT_TRUE(same_on_all_ranks(world, net->parameters()[1].grad()));
  });
}

TEST(DistributedDataParallel, AveragesGradientsOverTheRanks) {
  for (const bool views : {true, false}) {
    run_ranks(2, [views](Group& world) {
      torch::manual_seed(0);
      torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::Linear(3, 2));
      torch::nn::Sequential alone(torch::nn::Linear(4, 3), torch::nn::Linear(3, 2));
      for (std::size_t i = 0; i < 4; ++i) {
        alone->parameters()[i].set_data(net->parameters()[i].detach().clone());
      }
      DistributedDataParallel ddp(net, world, {.gradient_as_bucket_view = views});
      for (int step = 0; step < 3; ++step) {
        net->zero_grad();
        ddp(input_of(world.rank())).square().mean().backward();
        alone->zero_grad();
        ((alone->forward(input_of(0)).square().mean() +
          alone->forward(input_of(1)).square().mean()) /
         2)
            .backward();
        for (std::size_t i = 0; i < 4; ++i) {
          EXPECT_TRUE(at::allclose(net->parameters()[i].grad(), alone->parameters()[i].grad()));
        }
      }
      EXPECT_EQ(ddp.stats().steps, 3);
    });
  }
}

TEST(DistributedDataParallel, KeepsGradientsInItsBucketsOnly) {
  run_ranks(2, [](Group& world) {
    torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::Linear(3, 2));
    DistributedDataParallel ddp(net, world);
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      ddp(input_of(world.rank())).sum().backward();
    }
    const auto& storage = net->parameters()[0].grad().storage();
    for (const auto& parameter : net->parameters()) {
      EXPECT_TRUE(parameter.grad().storage().is_alias_of(storage));
    }
    EXPECT_GE(storage.nbytes(), ddp.stats().bytes);
    EXPECT_LT(storage.nbytes(), ddp.stats().bytes + 64);  // One gradient is aligned.
  });
}

TEST(DistributedDataParallel, AccumulatesWithoutTalkingUnderNoSync) {
  run_ranks(2, [](Group& world) {
    torch::nn::Linear net(4, 2);
    DistributedDataParallel ddp(net, world);
    {
      const auto guard = ddp.no_sync();
      ddp(input_of(world.rank())).sum().backward();
      EXPECT_FALSE(same_on_all_ranks(world, net->weight.grad()));
    }
    const auto own = net->weight.grad().clone();
    ddp(input_of(world.rank())).sum().backward();
    EXPECT_TRUE(same_on_all_ranks(world, net->weight.grad()));
    const auto sum = own * 2;
    world.all_reduce(sum, {.op = ReduceOp::kAvg}).wait();
    EXPECT_TRUE(at::allclose(net->weight.grad(), sum));
    EXPECT_EQ(ddp.stats().steps, 1);
  });
}

TEST(DistributedDataParallel, TakesAnyModuleAndAnySignature) {
  run_ranks(2, [](Group& world) {
    auto shared = std::make_shared<Branches>();
    DistributedDataParallel by_pointer(shared, world);
    const auto both = by_pointer(input_of(world.rank()), /*used=*/2);  // A struct of its own.
    (both.first.sum() + both.second.sum()).backward();
    EXPECT_TRUE(same_on_all_ranks(world, shared->first->weight.grad()));
    EXPECT_EQ(by_pointer->first.get(), shared->first.get());

    Branches raw;
    DistributedDataParallel by_reference(raw, world);
    by_reference.eval();
    EXPECT_FALSE(raw.is_training());
    by_reference.train();
    EXPECT_TRUE(by_reference.is_training());
    EXPECT_EQ(by_reference.named_parameters().size(), raw.named_parameters().size());

    auto moved = std::move(by_reference);
    const auto out = moved(input_of(world.rank()), 2);
    (out.first.sum() + out.second.sum()).backward();
    EXPECT_TRUE(same_on_all_ranks(world, raw.second->weight.grad()));
  });
}

TEST(DistributedDataParallel, NamesUnusedParametersWithTheirModuleInTheSameBackward) {
  run_ranks(2, [](Group& world) {
    auto net = std::make_shared<Branches>();
    DistributedDataParallel ddp(net, world);
    EXPECT_THAT(
        [&] { ddp(input_of(world.rank()), 0).first.sum().backward(); },
        ThrowsMessage<UsageError>(AllOf(HasSubstr("2 of 4 parameters got no gradient: "
                                                  "'second.weight' (torch::nn::LinearImpl), "
                                                  "'second.bias'"),
                                        HasSubstr("set find_unused_parameters"))));
  });
}

TEST(DistributedDataParallel, FindsUnusedParametersWhenAsked) {
  run_ranks(2, [](Group& world) {
    auto net = std::make_shared<Branches>();
    DistributedDataParallel ddp(net, world, {.find_unused_parameters = true});
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      // Each rank uses another branch: both get half of one rank's gradient.
      const auto out = ddp(input_of(0), world.rank());
      (world.rank() == 0 ? out.first : out.second).sum().backward();
      EXPECT_TRUE(same_on_all_ranks(world, net->first->bias.grad()));
      EXPECT_TRUE(net->second->bias.grad().equal(at::full({2}, 4.F)));
    }
    // Used on no rank: its gradient is not touched.
    net->zero_grad();
    ddp(input_of(0), 0).first.sum().backward();
    EXPECT_FALSE(net->second->bias.grad().defined());
    // Used by forward, but not by the loss.
    ddp(input_of(0), 2).first.sum().backward();
    EXPECT_FALSE(net->second->bias.grad().defined());
  });
}

TEST(DistributedDataParallel, LearnsAStaticGraph) {
  run_ranks(2, [](Group& world) {
    auto net = std::make_shared<Branches>();
    DistributedDataParallel ddp(net, world, {.static_graph = true});
    for (int step = 0; step < 4; ++step) {
      net->zero_grad();
      ddp(input_of(world.rank()), 0).first.sum().backward();
      EXPECT_TRUE(same_on_all_ranks(world, net->first->weight.grad()));
      EXPECT_FALSE(net->second->weight.grad().defined());
    }
    EXPECT_THAT(
        [&] {
          const auto out = ddp(input_of(world.rank()), 2);
          (out.first.sum() + out.second.sum()).backward();
        },
        ThrowsMessage<UsageError>(HasSubstr("the graph is not static")));
  });
}

TEST(DistributedDataParallel, MayBeUsedTwiceInAStepDespiteBuffers) {
  run_ranks(2, [](Group& world) {
    torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3));
    DistributedDataParallel ddp(net, world);
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      const auto first = ddp(input_of(world.rank()));
      const auto second = ddp(input_of(world.rank() + 5));
      (first.square().sum() + second.sin().sum()).backward();
      EXPECT_TRUE(same_on_all_ranks(world, net->parameters()[0].grad()));
    }
  });
}

TEST(DistributedDataParallel, GivesAllRanksTheBuffersOfRank0) {
  for (const bool on : {true, false}) {
    run_ranks(2, [on](Group& world) {
      torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3));
      DistributedDataParallel ddp(net, world, {.forward_sync_buffers = on});
      ddp(input_of(world.rank())).sum().backward();
      EXPECT_FALSE(same_on_all_ranks(world, net->buffers()[0]));
      ddp.eval();
      const at::NoGradGuard no_grad;
      ddp(input_of(world.rank()));
      EXPECT_EQ(same_on_all_ranks(world, net->buffers()[0]), on);
    });
  }
}

// One rank may replay a call that another runs eagerly, and a replay cannot know what ran before
// it.
TEST(DistributedDataParallel, EachCallOfAGraphedStepHasTheSameCollectives) {
  run_ranks(2, [](Group& world) {
    torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3));
    DistributedDataParallel ddp(net, world);
    const auto input = input_of(world.rank());
    const auto pass = [&](const at::Tensor& x) {
      const auto loss = ddp(x).square().sum();
      loss.backward();
      return loss;
    };
    const auto alone = [&](const at::Tensor& x) {
      const auto guard = ddp.no_sync();
      return pass(x);
    };
    GraphedStep micro(alone, {.device = at::kCPU});
    GraphedStep last(pass, {.device = at::kCPU});
    GraphedStep both([&](const at::Tensor& x) { return alone(x), pass(x); }, {.device = at::kCPU});
    const auto evaluate = [&](const at::Tensor& x) {
      const at::NoGradGuard no_grad;
      return ddp(x);
    };
    GraphedStep evaluated(evaluate, {.device = at::kCPU});
    const auto begun = [&] { return world.backend()->getSequenceNumberForGroup(); };
    const auto collectives_of = [&](auto& step) {
      const auto before = begun();
      step(input);
      return begun() - before;
    };
    for (int step = 0; step < 3; ++step) {  // In the first ones ranks agree on buckets.
      pass(input);
    }
    const auto of_micro = collectives_of(micro);
    const auto of_last = collectives_of(last);
    const auto of_both = collectives_of(both);
    const auto of_evaluated = collectives_of(evaluated);
    EXPECT_GT(of_micro, 0U) << "buffers";
    EXPECT_EQ(of_last, of_both) << "one broadcast in each";
    EXPECT_GT(of_evaluated, 0U);
    const auto expect_the_same = [&](const char* when) {
      EXPECT_EQ(collectives_of(micro), of_micro) << when;
      evaluate(input);
      EXPECT_EQ(collectives_of(last), of_last) << when;
      alone(input);
      EXPECT_EQ(collectives_of(both), of_both) << when;
      EXPECT_EQ(collectives_of(evaluated), of_evaluated) << when;
      EXPECT_EQ(collectives_of(evaluated), of_evaluated) << when;
    };
    expect_the_same("after an evaluation");
    pass(input);
    expect_the_same("after a step");
    alone(input);
    expect_the_same("after a pass without sums");
  });
}

TEST(DistributedDataParallel, WorksForAProcessThatIsAlone) {
  const auto world = init_process_group();
  torch::nn::Linear net(4, 2);
  DistributedDataParallel ddp(net, world);
  for (int step = 0; step < 3; ++step) {
    net->zero_grad();
    ddp(input_of(0)).sum().backward();
  }
  EXPECT_TRUE(net->bias.grad().equal(at::full({2}, 8.F)));
}

TEST(DistributedDataParallel, TrainsEightRanksOnFewCores) {
  run_ranks(8, [](Group& world) {
    torch::manual_seed(0);
    torch::nn::Sequential net(torch::nn::Linear(4, 16), torch::nn::Linear(16, 2));
    DistributedDataParallel ddp(net, world);
    for (int step = 0; step < 20; ++step) {
      net->zero_grad();
      ddp(input_of(world.rank())).square().mean().backward();
      const at::NoGradGuard no_grad;
      for (auto& parameter : net->parameters()) {
        parameter.sub_(parameter.grad(), 0.01);
      }
    }
    EXPECT_TRUE(same_on_all_ranks(world, net->parameters()[0]));
  });
}

}  // namespace
}  // namespace lockstep
