#include "lockstep/train/checkpoint/state_dict.h"

#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/models/registry.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/optim/model_ema.h"
#include "tests/comm/ranks.h"
#include "tests/train/checkpoint/toy.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& item : state) {
    names.push_back(item.first);
  }
  return names;
}

TEST(StateDict, HasPythonsOrder) {
  EXPECT_THAT(names_of(state_dict(*toy_network())),
              ElementsAre("0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean",
                          "1.running_var", "1.num_batches_tracked", "2.weight", "2.bias"));
}

TEST(LoadStateDict, NamesWhatDoesNotFitAndChangesNothing) {
  auto net = toy_network();
  const auto before = net->parameters()[0].clone();
  StateDict state = state_dict(*toy_network());
  for (auto& [name, tensor] : state) {
    tensor = tensor.clone().zero_();
  }
  state[1].second = at::randn({7});
  state[3].first = "1.other";
  EXPECT_THAT([&] { load_state_dict(*net, state); },
              ThrowsMessage<UsageError>(AllOf(HasSubstr("missing: 1.bias"),
                                              HasSubstr("unexpected: 1.other"),
                                              HasSubstr("0.bias is [7], expected [4]"))));
  EXPECT_TRUE(net->parameters()[0].equal(before));
  state[1].second = at::randn({4});
  const auto loaded = load_state_dict(*net, state, {.strict = false});
  EXPECT_THAT(loaded.missing_keys, ElementsAre("1.bias"));
  EXPECT_THAT(loaded.unexpected_keys, ElementsAre("1.other"));
  EXPECT_FALSE(net->parameters()[0].equal(before));
}

TEST(LoadStateDict, TensorsWithoutContentsAreNamedBeforeAnythingChanges) {
  auto net = toy_network();
  const auto before = net->parameters()[0].clone();
  StateDict state = state_dict(*toy_network());
  for (auto& [name, tensor] : state) {
    tensor = tensor.clone().zero_();
  }
  state[7].second = state[7].second.to(at::kMeta);
  state[8].second = at::Tensor();
  EXPECT_THAT([&] { load_state_dict(*net, state); },
              ThrowsMessage<UsageError>(HasSubstr("on 'meta': 2.weight, 2.bias")));
  EXPECT_TRUE(net->parameters()[0].equal(before));
}

TEST(LoadStateDict, TheCounterOfABatchNormMayBeMissingAsInPython) {
  auto net = toy_network();
  StateDict state = state_dict(*toy_network());
  std::erase_if(state, [](const auto& item) { return item.first == "1.num_batches_tracked"; });
  EXPECT_THAT(load_state_dict(*net, state).missing_keys, ElementsAre());
  std::erase_if(state, [](const auto& item) { return item.first == "1.running_mean"; });
  EXPECT_THAT([&] { load_state_dict(*net, state); },
              ThrowsMessage<UsageError>(HasSubstr("missing: 1.running_mean, 1.num_batches")));
}

TEST(StateDict, ThatOfDdpHasTheNamesOfAWrappedModelAndIsAccepted) {
  testing::run_ranks(2, [](Group& world) {
    auto net = toy_network();
    DistributedDataParallel ddp(net, world);
    const StateDict plain = state_dict(*net);
    const StateDict wrapped = ddp.state_dict();
    EXPECT_EQ(wrapped.at(0).first, "module.0.weight");
    EXPECT_EQ(names_of(state_dict(ddp)), names_of(wrapped));
    for (const StateDict* const given : {&plain, &wrapped}) {
      StateDict state;
      for (const auto& [name, tensor] : *given) {
        state.emplace_back(name, at::full_like(tensor, 3));
      }
      for (auto& parameter : net->parameters()) {
        parameter.data().zero_();
      }
      EXPECT_THAT(load_state_dict(ddp, state).missing_keys, ElementsAre());
      EXPECT_TRUE(net->parameters()[0].equal(at::full_like(net->parameters()[0], 3)));
    }
  });
}

// Python's torch.optim.swa_utils.AveragedModel, torchvision's average of the weights.
TEST(LoadStateDict, TheCounterOfAnAveragedModelIsLeftOut) {
  auto net = toy_network();
  StateDict state{{"n_averaged", at::full({}, 7)}};
  for (const auto& [name, tensor] : state_dict(*toy_network())) {
    state.emplace_back("module." + name, tensor.clone());
  }
  EXPECT_THAT(load_state_dict(*net, state).unexpected_keys, ElementsAre());
  state[1].first = "0.weight";
  EXPECT_THAT([&] { load_state_dict(*net, state); },
              ThrowsMessage<UsageError>(HasSubstr("unexpected: ")));
}

TEST(StateDict, AnAverageOfTheWeightsGoesOnWhereItWas) {
  auto net = toy_network();
  optim::ModelEma ema(*net, {.decay = 0.5});
  for (auto& parameter : net->parameters()) {
    parameter.data().fill_(2);
  }
  ema.update(*net);
  const auto saved = state_dict(ema);
  optim::ModelEma again(*net, {.decay = 0.5});
  EXPECT_FALSE(again.averages()["0.weight"].equal(ema.averages()["0.weight"]));
  EXPECT_THAT(load_state_dict(again, saved).missing_keys, ElementsAre());
  for (const auto& item : ema.averages()) {
    EXPECT_TRUE(again.averages()[item.key()].equal(item.value())) << item.key();
  }
}

TEST(LoadStateDict, AHeadOfAnotherNumberOfClassesStaysAsItIs) {
  const auto of_1000 = models::get_model("resnet18");
  const auto net = models::get_model("resnet18", {.num_classes = 10});
  const auto head = net->named_parameters()["fc.weight"].clone();
  EXPECT_THAT([&] { load_state_dict(*net, state_dict(*of_1000)); },
              ThrowsMessage<UsageError>(HasSubstr("fc.weight is [1000, 512], expected [10, 512]")));
  const auto loaded =
      load_state_dict(*net, state_dict(*of_1000), {.head = models::model_info("resnet18").head});
  EXPECT_THAT(loaded.kept_keys, ElementsAre("fc.weight", "fc.bias"));
  EXPECT_TRUE(net->named_parameters()["fc.weight"].equal(head));
  EXPECT_TRUE(
      net->named_parameters()["conv1.weight"].equal(of_1000->named_parameters()["conv1.weight"]));
  EXPECT_THAT([&] { load_state_dict(*net, state_dict(*of_1000), {.head = "f"}); },
              ThrowsMessage<UsageError>(HasSubstr("of another shape")));
}

// Two names that would become one are left as they are, and none is lost unseen.
TEST(LoadStateDict, NamesOfACompiledModelAreAcceptedUnlessTwoBecomeOne) {
  auto net = toy_network();
  StateDict state;
  for (const auto& [name, tensor] : state_dict(*toy_network())) {
    state.emplace_back("module._orig_mod." + name, at::full_like(tensor, 3));
  }
  EXPECT_NO_THROW(load_state_dict(*net, state));
  EXPECT_TRUE(net->parameters()[0].equal(at::full_like(net->parameters()[0], 3)));
  state.emplace_back("module.0.weight", state[0].second);
  EXPECT_THAT([&] { load_state_dict(*net, state); },
              ThrowsMessage<UsageError>(HasSubstr("unexpected: _orig_mod.0.bias")));
}

TEST(LoadStateDict, ThePrefixOfAWrappedModelIsAcceptedOnEitherSide) {
  auto net = toy_network();
  StateDict wrapped;
  for (const auto& [name, tensor] : state_dict(*toy_network())) {
    wrapped.emplace_back("module." + name, tensor.clone());
  }
  EXPECT_NO_THROW(load_state_dict(*net, wrapped));
  torch::nn::Module outer;
  outer.register_module("module", net.ptr());
  EXPECT_NO_THROW(load_state_dict(outer, state_dict(*toy_network())));
  EXPECT_NO_THROW(load_state_dict(outer, wrapped));
}

}  // namespace
}  // namespace lockstep
