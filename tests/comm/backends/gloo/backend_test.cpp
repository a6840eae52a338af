// Shows that our own declarations of Gloo's names fit the LibTorch in use: everything that
// crosses them is called for real, between two processes.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

TEST(GlooDeclarations, FitTheLibTorchInUse) {
  testing::run_ranks(
      2,
      [](Group& world) {
        const auto backend = world.backend();
        EXPECT_EQ(backend->getBackendName(), "gloo");
        EXPECT_EQ(backend->getSize(), 2);
        backend->setTimeout(
            std::chrono::seconds(30));  // Calls gloo::Context through our declaration.
        std::vector<at::Tensor> tensors{at::full({1000}, static_cast<double>(world.rank() + 1))};
        backend->allreduce(tensors)->wait();
        EXPECT_EQ(tensors[0].sum().item<double>(), 3000);
      },
      "gloo");
}

TEST(Gloo, ListensOnLoopbackAloneOnOneHost) {
  const auto says_so = [](Group& world) {
    EXPECT_THAT(world.description(), ::testing::HasSubstr(" over lo,"));
  };
  testing::run_ranks(2, says_so, "gloo");
}

}  // namespace
}  // namespace lockstep
