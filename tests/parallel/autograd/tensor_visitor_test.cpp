#include "lockstep/parallel/autograd/tensor_visitor.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

namespace mine {

struct Output {
  at::Tensor logits;
  std::vector<at::Tensor> features;
  int count = 0;
};

void visit_tensors(Output& output, const lockstep::TensorVisitor& visit) {
  visit(output.logits);
  lockstep::parallel::visit(output.features, visit);
}

struct Unknown {};

}  // namespace mine

namespace lockstep::parallel {
namespace {

at::Tensor number(int value) { return at::full({1}, value); }

template <class Value>
std::vector<int> found_in(Value value) {
  std::vector<int> found;
  visit(value, [&](at::Tensor& tensor) { found.push_back(tensor.item<int>()); });
  return found;
}

TEST(TensorVisitor, FindsTensorsInWhatForwardReturns) {
  using ::testing::ElementsAre;
  EXPECT_THAT(found_in(number(1)), ElementsAre(1));
  EXPECT_THAT(found_in(std::vector{number(1), number(2)}), ElementsAre(1, 2));
  EXPECT_THAT(found_in(std::tuple{number(1), 3.5, std::array{number(2), number(3)}}),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(found_in(std::pair{std::string("x"), std::optional(number(4))}), ElementsAre(4));
  EXPECT_THAT(found_in(std::optional<at::Tensor>()), ElementsAre());
  EXPECT_THAT(found_in(std::map<std::string, at::Tensor>{{"a", number(1)}, {"b", number(2)}}),
              ElementsAre(1, 2));
  EXPECT_THAT(found_in(std::vector<int>{1, 2}), ElementsAre());
}

TEST(TensorVisitor, FindsThoseOfAStructThatTheUserMaps) {
  EXPECT_THAT(found_in(mine::Output{number(1), {number(2), number(3)}}),
              ::testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(found_in(std::vector{mine::Output{number(1), {}}}), ::testing::ElementsAre(1));
}

TEST(TensorVisitor, MayExchangeThem) {
  std::tuple<at::Tensor, std::vector<at::Tensor>> value{number(1), {number(2)}};
  visit(value, [](at::Tensor& tensor) { tensor = tensor + 10; });
  EXPECT_EQ(std::get<1>(value)[0].item<int>(), 12);
}

TEST(TensorVisitor, DoesNotKnowOtherTypes) {
  EXPECT_FALSE(is_visitable<mine::Unknown>());
  EXPECT_FALSE(is_visitable<std::vector<mine::Unknown>>());
  EXPECT_FALSE((is_visitable<std::tuple<at::Tensor, mine::Unknown>>()));
  EXPECT_FALSE(is_visitable<at::TensorList>());
}

}  // namespace
}  // namespace lockstep::parallel
