// What join() refuses, and what it warns of.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/error.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/parallel/nn/sync_batch_norm.h"
#include "tests/parallel/nets.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::input_of;
using testing::run_ranks;
using ::testing::ThrowsMessage;

TEST(Join, RefusesBatchNormalizationOverTheRanksUnlessAllStopTogether) {
  run_ranks(2, [](Group& world) {
    torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3));
    convert_sync_batchnorm(*net, world);
    DistributedDataParallel ddp(net, world);
    EXPECT_THAT([&] { ddp.join([] {}); },
                ThrowsMessage<UsageError>(AllOf(HasSubstr("'1' normalizes over all ranks"),
                                                HasSubstr("throw_on_early_termination"))));
    const auto train = [&] {
      for (int step = 0; step < world.rank() + 1; ++step) {
        ddp(input_of(step)).square().sum().backward();
      }
    };
    EXPECT_THAT([&] { ddp.join(train, {.throw_on_early_termination = true}); },
                ThrowsMessage<UsageError>(HasSubstr("no more inputs")));
  });
  const auto alone = init_process_group();
  torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3));
  convert_sync_batchnorm(*net, alone);
  DistributedDataParallel ddp(net, alone);
  EXPECT_NO_THROW(ddp.join([&] { ddp(input_of(0)).sum().backward(); })) << "nobody to follow";
}

// Counts LibTorch's warnings about join while it lives.
class JoinWarnings : public c10::WarningHandler {
 public:
  JoinWarnings() : use_(this) {}
  void process(const c10::Warning& warning) override {
    count += warning.msg().starts_with("join: rank 0 of 2 has had no inputs for 1000") ? 1 : 0;
  }
  int count = 0;

 private:
  c10::WarningUtils::WarningHandlerGuard use_;
};

TEST(Join, WarnsOfARankThatHasFarFewerInputs) {
  run_ranks(2, [](Group& world) {
    torch::nn::Linear net(4, 2);
    DistributedDataParallel ddp(net, world);
    const auto warnings_of = [&](int inputs) {
      JoinWarnings warnings;
      ddp.join([&] {
        for (int step = 0; world.rank() == 1 && step < inputs; ++step) {
          ddp(input_of(0)).sum().backward();
        }
      });
      return warnings.count;
    };
    EXPECT_EQ(warnings_of(5), 0);
    EXPECT_EQ(warnings_of(1002), world.rank() == 0 ? 1 : 0);
  });
}

TEST(Join, RefusesWhatCannotBeShadowed) {
  const auto world = init_process_group();
  torch::nn::Linear net(4, 2);
  DistributedDataParallel fixed(net, world, {.static_graph = true});
  EXPECT_THAT([&] { fixed.join([] {}); }, ThrowsMessage<UsageError>(HasSubstr("static_graph")));
  DistributedDataParallel ddp(net, world);
  EXPECT_THAT([&] { ddp.join([&] { ddp.join([] {}); }); },
              ThrowsMessage<UsageError>(HasSubstr("inside a join already")));
  EXPECT_THAT(
      [&] {
        ddp.join([&] {
          const at::NoGradGuard no_grad;
          ddp(input_of(0));
        });
      },
      ThrowsMessage<UsageError>(HasSubstr("evaluate outside")));
  torch::nn::Embedding words(torch::nn::EmbeddingOptions(5, 3).sparse(true));
  DistributedDataParallel sparse(words, world);
  EXPECT_THAT([&] { sparse.join([] {}); },
              ThrowsMessage<UsageError>(HasSubstr("'weight' is sparse")));
}

}  // namespace
}  // namespace lockstep
