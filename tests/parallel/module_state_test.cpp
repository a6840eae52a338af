#include "lockstep/parallel/module_state.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/error.h"

namespace lockstep::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

struct Net : torch::nn::Module {
  Net() {
    scale = register_parameter("scale", torch::ones({1}));
    first = register_module("first", torch::nn::Linear(2, 2));
    again = register_module("again", first.ptr());
    table = register_module("table",
                            torch::nn::Embedding(torch::nn::EmbeddingOptions(3, 2).sparse(true)));
    norm = register_module("norm", torch::nn::BatchNorm1d(2));
    tied = register_parameter("tied", first->weight);
  }
  at::Tensor scale;
  at::Tensor tied;
  torch::nn::Linear first{nullptr};
  std::shared_ptr<torch::nn::LinearImpl> again;
  torch::nn::Embedding table{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

std::vector<std::string> names(const std::vector<Parameter>& parameters) {
  std::vector<std::string> found;
  for (const auto& parameter : parameters) {
    found.push_back(parameter.name);
  }
  return found;
}

TEST(ManagedParameters, AreThoseOfTheModulesInOrderEachOnce) {
  EXPECT_THAT(
      names(managed_parameters(Net(), {})),
      ElementsAre("scale", "tied", "first.bias", "table.weight", "norm.weight", "norm.bias"));
}

TEST(ManagedParameters, LeaveOutFrozenAndIgnoredOnes) {
  Net net;
  net.scale.set_requires_grad(false);
  EXPECT_THAT(names(managed_parameters(net, {"tied", "norm.bias"})),
              ElementsAre("first.weight", "first.bias", "table.weight", "norm.weight"));
}

TEST(ManagedParameters, KnowTheirOwnerAndSparseGradients) {
  const auto parameters = managed_parameters(Net(), {});
  EXPECT_FALSE(parameters[2].sparse);
  EXPECT_TRUE(parameters[3].sparse);
  EXPECT_EQ(parameters[3].owner, "torch::nn::EmbeddingImpl");
}

TEST(HasParameterBesides, LooksAtThoseThatRequireAGradientInAllModules) {
  Net net;
  std::unordered_set<const void*> known;
  for (const auto& tensor : net.parameters()) {
    known.insert(tensor.unsafeGetTensorImpl());
  }
  EXPECT_FALSE(has_parameter_besides(net, known));
  for (const auto& tensor : {net.scale, net.first->bias, net.norm->weight}) {
    auto others = known;
    others.erase(tensor.unsafeGetTensorImpl());
    EXPECT_TRUE(has_parameter_besides(net, others));
    tensor.set_requires_grad(false);
    EXPECT_FALSE(has_parameter_besides(net, others));
  }
  net.norm->register_parameter("late", torch::ones({1}));
  EXPECT_TRUE(has_parameter_besides(net, known));
}

TEST(States, AreAllParametersThenAllBuffers) {
  Net net;
  net.scale.set_requires_grad(false);
  const auto all = states(net, {"norm.running_mean"});
  EXPECT_THAT(all, SizeIs(6 + 2));
  EXPECT_TRUE(all[0].is_alias_of(net.scale));
  EXPECT_TRUE(all[6].is_alias_of(net.norm->running_var));
  EXPECT_THAT(buffers(net, {}), SizeIs(3));
  net.register_module("same_norm", net.norm.ptr());
  EXPECT_THAT(buffers(net, {}), SizeIs(3));
  net.register_buffer("late", torch::ones({1}));
  EXPECT_THAT(buffers(net, {}), SizeIs(4));
  net.register_buffer("expanded", torch::ones({1}).expand({5}));
  EXPECT_THAT([&] { (void)buffers(net, {}); },
              ThrowsMessage<UsageError>(HasSubstr("'expanded' of shape [5]")));
}

TEST(States, CanBeWrittenWithoutAutogradTakingNotice) {
  Net net;
  const auto version = net.norm->running_mean._version();
  buffers(net, {})[0].fill_(7);
  EXPECT_EQ(net.norm->running_mean[0].item<float>(), 7);
  EXPECT_EQ(net.norm->running_mean._version(), version);
}

TEST(EachOnce, DropsWhatModulesShare) {
  const Net net;
  EXPECT_THAT(net.parameters(), SizeIs(9));
  EXPECT_THAT(each_once(net.parameters()), SizeIs(6));
}

}  // namespace
}  // namespace lockstep::parallel
