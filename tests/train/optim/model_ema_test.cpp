#include "lockstep/train/optim/model_ema.h"

#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <cmath>

#include "lockstep/base/error.h"
#include "tests/parity/tensor_file.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Net : torch::nn::Module {
  explicit Net(const at::Tensor& value) {
    weight = register_parameter("weight", value.clone());
    count = register_buffer("count", at::full({}, 0, at::kLong));
  }
  void set(const at::Tensor& value) const { weight.detach().copy_(value); }
  at::Tensor weight;
  at::Tensor count;
};

TEST(ModelEma, HasTheBitsOfTimmsRules) {
  at::set_num_threads(1);
  const test::TemporaryFolder folder;
  test::run_python("train/optim/run_clip.py", {folder.file("tensors")});
  const auto tensors = parity::read(folder.file("tensors"));
  for (const std::string rule : {"v2", "v3"}) {
    const Net net(tensors.at("ema." + rule + ".first"));
    ModelEma ema(
        net, rule == "v2"
                 ? ModelEmaOptions{.decay = 0.99}
                 : ModelEmaOptions{
                       .decay = 0.8, .min_decay = 0.3, .update_after_step = 2, .use_warmup = true});
    for (int step = 1; step < 30; ++step) {
      net.set(tensors.at("ema." + rule + ".weights." + std::to_string(step)));
      net.count.fill_(step);
      rule == "v2" ? ema.update(net) : ema.update(net, step);
      EXPECT_TRUE(at::equal(ema.averages()["weight"],
                            tensors.at("ema." + rule + ".average." + std::to_string(step))))
          << rule << " " << step;
    }
    EXPECT_EQ(ema.averages()["count"].item<int>(), rule == "v2" ? 0 : 29) << "cut, or copied";
  }
}

TEST(ModelEma, OfHalfWeightsMovesInSmallSteps) {
  Net net(at::full({2}, 1.0, at::kHalf));
  ModelEma ema(net, {.decay = 0.9998});
  net.set(at::full({2}, 0.5, at::kHalf));
  for (int step = 0; step < 1000; ++step) {
    ema.update(net);
  }
  EXPECT_NEAR(ema.averages()["weight"][0].item<double>(), 0.5 + 0.5 * std::pow(0.9998, 1000), 1e-4);
  ema.copy_to(net);
  EXPECT_EQ(net.weight.scalar_type(), at::kHalf);
}

TEST(ModelEma, ItsWeightsCanBePutIntoANetwork) {
  const Net net(at::full({2}, 1.0F));
  ModelEma ema(net, {.decay = 0.5});
  net.set(at::full({2}, 3.0F));
  ema.update(net);
  Net other(at::full({2}, 0.0F));
  ema.copy_to(other);
  EXPECT_TRUE(at::equal(other.weight, at::full({2}, 2.0F)));
  EXPECT_TRUE(at::equal(net.weight, at::full({2}, 3.0F))) << "the average is a copy";
  ema.set(net);
  EXPECT_TRUE(at::equal(ema.averages()["weight"], at::full({2}, 3.0F)));
}

TEST(ModelEma, AnotherNetworkIsRefused) {
  ModelEma ema(Net(at::full({2}, 1.0F)));
  EXPECT_THAT([&] { ema.update(Net(at::full({3}, 1.0F))); },
              ThrowsMessage<UsageError>(HasSubstr("has no 'weight' of the average's shape")));
  EXPECT_THAT([] { ModelEma(Net(at::full({2}, 1.0F)), {.decay = 2}); },
              ThrowsMessage<UsageError>(HasSubstr("decay is 2")));
}

}  // namespace
}  // namespace lockstep::optim
