#include "lockstep/train/checkpoint/state_dict.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
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
