#include "lockstep/models/mlp.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/models/python_model.h"

namespace lockstep::models {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Mlp, HasTheBitsOfPython) {
  expect_bits_of_python({{"mlp", {8, 784}, [] { return mlp(); }}});
}

TEST(Mlp, HasTheSizesOfItsOptions) {
  auto net = mlp({.in_features = 3, .hidden = {5}, .num_classes = 2});
  EXPECT_EQ(net->forward(at::zeros({4, 3})).sizes(), (std::vector<std::int64_t>{4, 2}));
  EXPECT_EQ(net->parameters().size(), 4U);
}

TEST(Mlp, WithoutHiddenLayersIsOneLinearLayer) {
  EXPECT_EQ(mlp({.hidden = {}})->named_parameters().keys(),
            (std::vector<std::string>{"0.weight", "0.bias"}));
}

TEST(Mlp, ASizeThatIsNotPositiveIsNamed) {
  EXPECT_THAT([] { mlp({.hidden = {4, 0}}); },
              ThrowsMessage<UsageError>(HasSubstr("a size in hidden is 0")));
  EXPECT_THAT([] { mlp({.in_features = -1}); },
              ThrowsMessage<UsageError>(HasSubstr("in_features is -1")));
}

}  // namespace
}  // namespace lockstep::models
