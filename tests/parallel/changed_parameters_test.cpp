// Parameters that become others while their module is wrapped.
#include <gmock/gmock.h>
#include <torch/serialize/archive.h>

#include <sstream>

#include "lockstep/base/error.h"
#include "tests/parallel/trial.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using testing::batch_of;
using ::testing::HasSubstr;
using testing::kAllLayers;
using testing::Layers;
using testing::on_ranks;
using testing::run_ranks;
using ::testing::ThrowsMessage;
using testing::Trial;

at::Tensor with_other_strides(const at::Tensor& weight) {
  return weight.detach().t().contiguous().t();
}

TEST(ChangedParameters, StridesMayChange) {
  on_ranks([](Group& world) {
    Trial trial(world);
    trial.steps(0, 3);
    for (auto* net : {&trial.wrapped(), &trial.plain()}) {
      net->weights[1].set_data(with_other_strides(net->weights[1]));
    }
    trial.steps(3, 8);
  });
}

// Before the second step buckets are planned anew: their places must stay alike on all ranks.
TEST(ChangedParameters, StridesMayChangeOnOneRankOnly) {
  for (const int when : {1, 3}) {
    on_ranks([when](Group& world) {
      Trial trial(world);
      trial.steps(0, when);
      auto& weight = trial.wrapped().weights[1];
      const auto values = weight.detach().clone();
      if (world.rank() == 1) {
        weight.set_data(with_other_strides(weight));
      }
      for (int step = when; step < when + 3; ++step) {
        trial.wrapped().zero_grad();
        trial.add(step);
        // Another layout may round otherwise.
        const auto expected = trial.averages(step, [](int) { return kAllLayers; });
        EXPECT_TRUE(weight.grad().allclose(expected[1], 1e-4, 1e-5)) << step;
      }
      EXPECT_TRUE(weight.equal(values));
    });
  }
}

// What torch::save() and torch::load() do.
TEST(ChangedParameters, ACheckpointMayHaveOtherStrides) {
  on_ranks([](Group& world) {
    Layers saved;
    for (auto& weight : saved.weights) {
      weight.set_data(with_other_strides(weight));
    }
    std::stringstream file;
    torch::serialize::OutputArchive out;
    saved.save(out);
    out.save_to(file);
    Trial trial(world);
    trial.steps(0, 3);
    for (auto* net : {&trial.wrapped(), &trial.plain()}) {
      file.seekg(0);
      torch::serialize::InputArchive in;
      in.load_from(file);
      net->load(in);
      ASSERT_FALSE(net->weights[2].is_contiguous());
    }
    trial.steps(3, 8);
  });
}

TEST(ChangedParameters, AModuleThatWasMovedIsAnErrorThatNamesTheParameter) {
  run_ranks(
      2,
      [](Group& world) {
        Trial trial(world);
        trial.steps(0, 2);
        trial.wrapped().to(at::kDouble);
        EXPECT_THAT([&] { trial.ddp()(batch_of(world.rank(), 2).to(at::kDouble), kAllLayers); },
                    ThrowsMessage<UsageError>(AllOf(
                        HasSubstr("forward of step 3 on rank " + std::to_string(world.rank())),
                        HasSubstr("'w0' is CPUDoubleType, was CPUFloatType"), HasSubstr("wrap"))));
        // There and back: autograd has other accumulators now, which are found.
        trial.wrapped().to(at::kFloat);
        trial.wrapped().zero_grad();
        for (std::size_t i = 0; i < 4; ++i) {
          trial.wrapped().weights[i].set_data(trial.plain().weights[i].detach().clone());
        }
        trial.steps(2, 6);
      },
      "shm");
}

TEST(ChangedParameters, AParameterThatGetsGradientsLaterIsNamed) {
  run_ranks(
      2,
      [](Group& world) {
        Trial trial(world, {.parameters_to_ignore = {"w3"}},
                    [](Layers& net) { net.weights[2].set_requires_grad(false); });
        trial.add(0);
        trial.wrapped().weights[2].set_requires_grad(true);
        EXPECT_THAT([&] { trial.add(1); },
                    ThrowsMessage<UsageError>(AllOf(
                        HasSubstr("'w2'"), HasSubstr("parameters_to_ignore"), HasSubstr("wrap"))));
        trial.wrapped().weights[2].set_requires_grad(false);
        trial.add(2);
      },
      "shm");
}

}  // namespace
}  // namespace lockstep
