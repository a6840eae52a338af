#include "lockstep/train/report/tally.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "lockstep/data/datasets/image_folder_dataset.h"

namespace lockstep::train {

Tally::Tally(at::Device device)
    : sums_(at::zeros({5}, at::TensorOptions(at::kDouble).device(device))) {}

void Tally::add(const at::Tensor& scores, const at::Tensor& target, const at::Tensor& loss) {
  const at::NoGradGuard no_grad;
  const auto samples = static_cast<double>(scores.size(0));
  const auto label = target.dim() == 2 ? target.argmax(1) : target;
  const auto best = std::get<1>(scores.detach().topk(std::min<std::int64_t>(5, scores.size(1)), 1));
  const auto right = best.eq(label.unsqueeze(1));
  const auto counts = at::stack({right.select(1, 0).sum(), right.sum()}).to(at::kDouble);
  sums_.select(0, 0).add_(loss.detach().to(at::kDouble), samples);
  sums_.slice(0, 1, 3).add_(counts);
  sums_.select(0, 3).add_(samples);
  const auto sum = sums_.select(0, 0);  // Once NaN, it stays so.
  sums_.select(0, 4).add_((sum - sum).eq(0), samples);
}

void Tally::add_counted(const at::Tensor& scores, const at::Tensor& target,
                        const at::Tensor& loss) {
  const at::NoGradGuard no_grad;
  const auto samples = target.ne(data::kNotCounted).sum().to(at::kDouble);
  const auto best = std::get<1>(scores.topk(std::min<std::int64_t>(5, scores.size(1)), 1));
  const auto right = best.eq(target.unsqueeze(1));  // No class is kNotCounted.
  // The mean of none is NaN.
  const auto mean = at::where(samples > 0, loss.to(at::kDouble), at::zeros_like(samples));
  sums_.select(0, 0).add_(mean * samples);
  sums_.slice(0, 1, 3).add_(at::stack({right.select(1, 0).sum(), right.sum()}).to(at::kDouble));
  sums_.select(0, 3).add_(samples);
  const auto sum = sums_.select(0, 0);
  sums_.select(0, 4).add_((sum - sum).eq(0) * samples);
}

void Tally::reset() { sums_.zero_(); }

Tally::Sums Tally::sums() const {
  const auto host = sums_.cpu();
  Sums sums{};
  std::copy_n(host.const_data_ptr<double>(), sums.size(), sums.begin());
  return sums;
}

void Tally::set_sums(const Sums& sums) {
  sums_.copy_(at::tensor(std::vector<double>(sums.begin(), sums.end()), at::kDouble));
}

Scores scores_of(const Tally::Sums& sums) {
  const double samples = sums[3];
  const double percent = samples > 0 ? 100 / samples : 0;
  return {.loss = samples > 0 ? sums[0] / samples : 0,
          .top1 = percent * sums[1],
          .top5 = percent * sums[2],
          .samples = static_cast<std::int64_t>(samples)};
}

Scores scores_over(const Group& group, const Tally::Sums& sums) {
  std::string bytes(sizeof sums, '\0');
  std::memcpy(bytes.data(), sums.data(), bytes.size());
  Tally::Sums total{};
  for (const auto& other : group.all_gather_bytes(bytes)) {
    Tally::Sums part{};
    std::memcpy(part.data(), other.data(), std::min(other.size(), sizeof part));
    for (std::size_t i = 0; i < total.size(); ++i) {
      total[i] += part[i];
    }
  }
  return scores_of(total);
}

at::Tensor loss_of(const at::Tensor& scores, const at::Tensor& target, double smoothing) {
  return at::cross_entropy_loss(scores, target, {}, at::Reduction::Mean, -100, smoothing);
}

}  // namespace lockstep::train
