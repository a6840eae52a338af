// The optimizer's state is shared out over ranks whose parameters are on a GPU.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include "lockstep/train/optim/adam.h"
#include "lockstep/train/optim/zero_redundancy_optimizer.h"
#include "tests/comm/ranks.h"

namespace lockstep::optim {
namespace {

std::vector<at::Tensor> params() {
  std::vector<at::Tensor> all;
  for (const std::int64_t size : {70'000, 300, 12'000}) {
    all.push_back(at::arange(size, at::kCUDA).to(at::kFloat).sin().requires_grad_());
  }
  return all;
}

void set_gradients(std::vector<at::Tensor>& all, int step) {
  for (auto& param : all) {
    param.mutable_grad() = at::arange(param.numel(), at::kCUDA).to(at::kFloat).add(step).cos();
  }
}

void expect_the_bits_of_adamw(int ranks, const char* backend) {
  testing::run_ranks(
      ranks,
      [](Group& world) {
        auto expected = params();
        auto found = params();
        AdamW plain(expected, {.lr = 0.1});
        ZeroRedundancyOptimizer<AdamW> optimizer(world, found, {.lr = 0.1});
        for (int step = 0; step < 5; ++step) {
          set_gradients(expected, step);
          set_gradients(found, step);
          plain.step();
          optimizer.step();
        }
        const auto all = optimizer.consolidate_state_dict();
        const auto plain_state = plain.state_dict();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_TRUE(at::equal(found[i], expected[i])) << "parameter " << i;
          if (world.rank() == 0) {
            const auto number = static_cast<std::int64_t>(i);
            EXPECT_TRUE(at::equal(all.state.at(number).at("exp_avg").cpu(),
                                  plain_state.state.at(number).at("exp_avg").cpu()));
          }
        }
      },
      backend);
}

TEST(ZeroOnGpu, HasTheBitsOfThePlainOptimizer) {
  expect_the_bits_of_adamw(1, "cpu:shm,cuda:nccl");
  expect_the_bits_of_adamw(2, "cpu:shm,cuda:shm");
}

}  // namespace
}  // namespace lockstep::optim
