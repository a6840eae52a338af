#include "lockstep/models/script_module.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>

#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/models/network.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::models {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// weight * x + inner.offset, and 100 more in eval mode. The count of calls is a new tensor each
// time.
torch::jit::Module script() {
  torch::jit::Module inner("Inner");
  inner.register_parameter("offset", at::ones({2}).requires_grad_(), /*is_buffer=*/false);
  inner.register_attribute("training", c10::BoolType::get(), true);
  inner.define("def forward(self, x):\n  return x + self.offset if self.training else x + 100\n");
  torch::jit::Module outer("Outer");
  outer.register_parameter("weight", at::full({2}, 3.0F).requires_grad_(), /*is_buffer=*/false);
  outer.register_parameter("frozen", at::ones({2}), /*is_buffer=*/false);
  outer.register_buffer("calls", at::zeros({}));
  outer.register_attribute("training", c10::BoolType::get(), true);
  outer.register_module("inner", inner);
  outer.define(
      "def forward(self, x):\n"
      "  self.calls = self.calls + 1\n"
      "  return self.inner.forward(x * self.weight)\n");
  return outer;
}

const at::Tensor kOnes = at::ones({2});

TEST(ScriptModule, HasTheNamesAndTensorsOfTheScript) {
  const auto net = std::make_shared<ScriptModule>(script());
  EXPECT_EQ(net->named_parameters().keys(),
            (std::vector<std::string>{"weight", "frozen", "inner.offset"}));
  EXPECT_EQ(net->named_buffers().keys(), std::vector<std::string>{"calls"});
  EXPECT_FALSE(net->named_parameters()["frozen"].requires_grad());
  EXPECT_EQ(net->name(), "Outer");
  net->forward(kOnes).sum().backward();
  EXPECT_TRUE(at::equal(net->named_parameters()["weight"].grad(), kOnes));
  {
    const at::NoGradGuard no_grad;
    net->named_parameters()["inner.offset"].fill_(7);
  }
  EXPECT_TRUE(at::equal(net->forward(kOnes), at::full({2}, 10.0F)));
}

TEST(ScriptModule, ItsModeReachesTheScript) {
  const auto net = std::make_shared<ScriptModule>(script());
  EXPECT_TRUE(net->is_training());
  net->eval();
  EXPECT_TRUE(at::equal(net->forward(kOnes), at::full({2}, 103.0F)));
  EXPECT_FALSE(std::make_shared<ScriptModule>(net->script())->is_training());
  net->train();
  EXPECT_TRUE(at::equal(net->forward(kOnes), at::full({2}, 4.0F)));
}

TEST(ScriptModule, ABufferThatTheScriptReplacesStaysTheSameTensor) {
  const auto net = std::make_shared<ScriptModule>(script());
  const auto calls = net->named_buffers()["calls"];
  net->forward(kOnes);
  net->forward(std::vector<at::Tensor>{kOnes});
  EXPECT_EQ(calls.item<double>(), 2);
  calls.fill_(10);
  net->forward(kOnes);
  EXPECT_EQ(calls.item<double>(), 11);
  EXPECT_TRUE(net->script().attr("calls").toTensor().is_same(calls));
}

TEST(ScriptModule, MovesTheScript) {
  const auto net = std::make_shared<ScriptModule>(script());
  net->to(at::kDouble);
  EXPECT_EQ(net->forward(kOnes.to(at::kDouble)).scalar_type(), at::kDouble);
}

TEST(ScriptModule, TakesAndReturnsSeveralTensors) {
  auto module = script();
  module.define("def pair(self, x, y):\n  return x * self.weight, y\n");
  torch::jit::Module outer("Pairs");
  outer.register_module("net", module);
  outer.define("def forward(self, x, y):\n  return self.net.pair(x, y)\n");
  ScriptModule net(outer);
  const auto outputs = net.forward(std::vector<at::Tensor>{kOnes, kOnes * 5});
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_TRUE(at::equal(outputs[0], at::full({2}, 3.0F)));
  EXPECT_TRUE(at::equal(outputs[1], at::full({2}, 5.0F)));
  torch::jit::Module dictionary("Dictionary");
  dictionary.register_module("net", module);
  dictionary.define("def forward(self, x):\n  return {'x': self.net.forward(x)}\n");
  EXPECT_THAT([&] { ScriptModule(dictionary).forward(kOnes); },
              ThrowsMessage<UsageError>(HasSubstr("'Dictionary' returns GenericDict, expected")));
}

TEST(ScriptModule, ACloneTrainsByItself) {
  const auto net = std::make_shared<ScriptModule>(script());
  net->eval();
  const auto clone = std::dynamic_pointer_cast<ScriptModule>(net->clone());
  EXPECT_FALSE(clone->is_training());
  clone->train();
  EXPECT_FALSE(net->is_training());
  EXPECT_TRUE(clone->named_parameters()["weight"].is_leaf());
  EXPECT_FALSE(clone->named_parameters()["frozen"].requires_grad());
  clone->forward(kOnes).sum().backward();
  EXPECT_TRUE(clone->named_parameters()["weight"].grad().defined());
  EXPECT_FALSE(net->named_parameters()["weight"].grad().defined());
  EXPECT_EQ(net->named_buffers()["calls"].item<double>(), 0);
}

TEST(ScriptModule, IsANetworkLikeOthers) {
  const auto net = std::make_shared<Network>(std::make_shared<ScriptModule>(script()));
  EXPECT_EQ(net->named_parameters().size(), 3U);
  net->eval();
  EXPECT_TRUE(at::equal(net->forward(kOnes), at::full({2}, 103.0F)));
}

TEST(ScriptModule, WithoutParametersIsAnError) {
  torch::jit::Module frozen("Frozen");
  frozen.define("def forward(self, x):\n  return x\n");
  EXPECT_THAT([&] { ScriptModule{frozen}; },
              ThrowsMessage<UsageError>(HasSubstr("'Frozen' has no parameters; torch.jit.freeze")));
}

TEST(LoadScriptModule, ReadsWhatWasSaved) {
  const test::TemporaryFolder folder;
  const auto net = std::make_shared<ScriptModule>(script());
  net->forward(kOnes);
  net->save_script(folder.file("net.pt"));
  const auto loaded = load_script_module(folder.file("net.pt"));
  EXPECT_EQ(loaded->named_parameters().keys(), net->named_parameters().keys());
  EXPECT_EQ(loaded->named_buffers()["calls"].item<double>(), 1);
  EXPECT_TRUE(at::equal(loaded->forward(kOnes), net->forward(kOnes)));
}

TEST(LoadScriptModule, AFileOfAnotherKindIsNamed) {
  const test::TemporaryFolder folder;
  const auto path = folder.file("text.pt");
  std::ofstream(path) << "text";
  EXPECT_THAT([&] { load_script_module(path); },
              ThrowsMessage<IoError>(HasSubstr("text.pt' is no file of torch.jit.save()")));
  EXPECT_THAT([&] { load_script_module(folder.file("none.pt")); },
              ThrowsMessage<IoError>(HasSubstr("none.pt'")));
}

}  // namespace
}  // namespace lockstep::models
