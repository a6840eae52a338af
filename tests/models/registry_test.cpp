#include "lockstep/models/registry.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/models/resnet.h"

namespace lockstep::models {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ListModels, IsSortedByName) {
  EXPECT_TRUE(std::ranges::is_sorted(list_models(), {}, &ModelInfo::name));
  EXPECT_EQ(list_models().size(), 13U);
}

TEST(GetModel, EachTakesItsInputAndHasItsHead) {
  for (const auto& info : list_models()) {
    if (info.name.starts_with("vgg") && info.name != "vgg11_bn") {
      continue;  // Half a gigabyte each.
    }
    SCOPED_TRACE(info.name);
    auto sizes = info.input_size;
    if (sizes.size() == 3 && sizes[1] > 64) {
      sizes = {2, 64, 48};
    }
    const auto net = get_model(info.name, {.num_classes = 7, .input_size = sizes});
    net->eval();
    const auto weight = net->named_parameters()[info.head + ".weight"];
    EXPECT_EQ(weight.size(0), 7);
    EXPECT_EQ(net->named_parameters().items().back().key(), info.head + ".bias");
    sizes.insert(sizes.begin(), 3);
    EXPECT_EQ(net->forward(at::zeros(sizes)).sizes(), (std::vector<std::int64_t>{3, 7}));
  }
}

TEST(GetModel, HasTheWeightsOfTheNetworksOwnFunction) {
  at::manual_seed(3);
  const auto expected = resnet18();
  at::manual_seed(3);
  const auto net = get_model("resnet18");
  ASSERT_EQ(net->named_parameters().keys(), expected->named_parameters().keys());
  for (const auto& item : net->named_parameters()) {
    EXPECT_TRUE(at::equal(item.value(), expected->named_parameters()[item.key()])) << item.key();
  }
}

TEST(GetModel, RowsAndImagesGoIntoAnMlp) {
  const auto images = get_model("mlp", {.num_classes = 2, .input_size = {3, 4, 5}});
  EXPECT_EQ(images->forward(at::zeros({6, 3, 4, 5})).sizes(), (std::vector<std::int64_t>{6, 2}));
  const auto rows = get_model("toy", {.num_classes = 2, .input_size = {8}});
  EXPECT_EQ(rows->forward(at::zeros({6, 8})).sizes(), (std::vector<std::int64_t>{6, 2}));
}

TEST(GetModel, AnUnknownNameIsAnswered) {
  const auto expect = [](const char* name, const char* nearest) {
    EXPECT_THAT(
        [&] { get_model(name); },
        ThrowsMessage<UsageError>(AllOf(HasSubstr(std::string("no network '") + name + "'"),
                                        HasSubstr(std::string("did you mean '") + nearest + "'?"),
                                        HasSubstr("convnet, mlp, mobilenet_v2"))));
  };
  expect("resnet-18", "resnet18");
  expect("resnet110", "resnet101");
  expect("vgg16", "vgg16_bn");
  expect("mobilenetv2", "mobilenet_v2");
  expect("", "mlp");
}

TEST(GetModel, SizesThatItCannotHaveAreNamed) {
  EXPECT_THAT(
      [] { get_model("resnet18", {.input_size = {8}}); },
      ThrowsMessage<UsageError>(HasSubstr("resnet18: input_size is {8}, expected {channels")));
  EXPECT_THAT([] { get_model("vgg11_bn", {.input_size = {1, 28, 28}}); },
              ThrowsMessage<UsageError>(HasSubstr("images of 28x28, expected at least 32x32")));
  EXPECT_THAT([] { get_model("mlp", {.input_size = {3, 0, 2}}); },
              ThrowsMessage<UsageError>(HasSubstr("mlp: a size in input_size is 0")));
}

}  // namespace
}  // namespace lockstep::models
