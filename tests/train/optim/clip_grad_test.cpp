#include "lockstep/train/optim/clip_grad.h"

#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>

#include <limits>

#include "lockstep/base/error.h"
#include "tests/parity/tensor_file.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// As in run_clip.py.
struct ClipCase {
  const char* name;
  double bound;
  double norm_type;
};
constexpr ClipCase kClips[] = {{"two", 1.0, 2},
                               {"one", 0.5, 1},
                               {"largest", 0.25, kInfinity},
                               {"half", 3.0, 0.5},
                               {"least", 1e-3, -kInfinity},
                               {"small", 1e9, 2},
                               {"mixed", 0.7, 2}};

TEST(ClipGrad, HasTheBitsOfPython) {
  at::set_num_threads(1);
  const test::TemporaryFolder folder;
  test::run_python("train/optim/run_clip.py", {folder.file("tensors")});
  const auto tensors = parity::read(folder.file("tensors"));
  const auto params_of = [&](const std::string& name) {
    std::vector<at::Tensor> params;
    for (int i = 0; i < 4; ++i) {
      const auto& grad = tensors.at(name + ".in." + std::to_string(i));
      params.push_back(at::zeros_like(grad).requires_grad_());
      params.back().mutable_grad() = grad.clone();
    }
    params.push_back(at::full({3}, 0.0F).requires_grad_());  // Without a gradient.
    return params;
  };
  const auto expect_clipped = [&](const std::string& name, const std::vector<at::Tensor>& params) {
    for (int i = 0; i < 4; ++i) {
      EXPECT_TRUE(at::equal(params[static_cast<std::size_t>(i)].grad(),
                            tensors.at(name + ".out." + std::to_string(i))))
          << name << " " << i;
    }
  };
  for (const auto& each : kClips) {
    const auto params = params_of(each.name);
    const auto total = clip_grad_norm_(params, each.bound, {.norm_type = each.norm_type});
    EXPECT_TRUE(at::equal(total, tensors.at(std::string(each.name) + ".total"))) << each.name;
    expect_clipped(each.name, params);
  }
  const auto params = params_of("value");
  clip_grad_value_(params, 0.3);
  expect_clipped("value", params);
}

TEST(ClipGrad, ANormThatIsNotFiniteIsAnErrorIfAsked) {
  auto param = at::full({2}, 1.0F).requires_grad_();
  param.mutable_grad() = at::full({2}, kInfinity, at::kFloat);
  EXPECT_THAT([&] { clip_grad_norm_({param}, 1, {.error_if_nonfinite = true}); },
              ThrowsMessage<UsageError>(HasSubstr("the norm of the gradients is inf")));
  EXPECT_EQ(clip_grad_norm_({param}, 1).item<double>(), kInfinity);
}

TEST(ClipGrad, WithoutGradientsTheNormIsZero) {
  const auto param = at::full({2}, 1.0F).requires_grad_();
  EXPECT_EQ(clip_grad_norm_({param}, 1).item<double>(), 0);
  clip_grad_value_({param}, 1);
}

}  // namespace
}  // namespace lockstep::optim
