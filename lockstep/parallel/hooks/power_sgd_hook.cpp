#include "lockstep/parallel/hooks/power_sgd_hook.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <map>
#include <random>

#include "lockstep/base/error.h"
#include "lockstep/parallel/hooks/default_hooks.h"

namespace lockstep {
namespace {

// numpy.random.RandomState(seed).randint(1_000_000_000), which PyTorch seeds its generator with.
class Seeds {
 public:
  explicit Seeds(std::uint32_t seed) : engine_(seed) {}
  std::uint64_t next() {
    constexpr std::uint32_t kMask = (1U << 30) - 1;
    std::uint32_t value = engine_() & kMask;
    while (value >= 1'000'000'000U) {
      value = engine_() & kMask;
    }
    return value;
  }

 private:
  std::mt19937 engine_;
};

void gram_schmidt(const at::Tensor& matrices, double epsilon) {
  const auto columns = matrices.size(2);
  for (std::int64_t i = 0; i < columns; ++i) {
    const auto column = matrices.narrow(2, i, 1);
    auto norm = at::linalg_vector_norm(column, 2, {1}, /*keepdim=*/true);
    column.div_(epsilon == 0 ? norm : norm + epsilon);
    if (i + 1 < columns) {
      const auto rest = matrices.narrow(2, i + 1, columns - i - 1);
      rest.sub_((column * rest).sum({1}, /*keepdim=*/true) * column);
    }
  }
}

void orthogonalize(at::Tensor matrices, double epsilon) {
  const auto type = matrices.scalar_type();
  if (matrices.size(2) <= 2 || type == at::kHalf || type == at::kBFloat16) {
    gram_schmidt(matrices, epsilon);
    return;
  }
  auto rest = at::empty({matrices.size(0), matrices.size(2), matrices.size(2)}, matrices.options());
  at::linalg_qr_out(matrices, rest, matrices);
}

// What travels of a bucket: M is close to P times the transposed Q.
struct Low {
  std::vector<at::Tensor> matrices;                // [batch, n, m].
  std::vector<std::vector<at::Tensor>> originals;  // Those that a batch was stacked from.
  std::vector<at::Tensor> ps;                      // [batch, n, rank]; views of p.
  std::vector<at::Tensor> qs;                      // [batch, m, rank]; views of q.
  std::vector<at::Tensor> whole;                   // Gradients that are not compressed.
  at::Tensor whole_flat;
};

class PowerSgd {
 public:
  PowerSgd(const Group& group, const PowerSgdOptions& options)
      : group_(group),
        options_(options),
        average_(allreduce_hook(group)),
        seeds_(options.random_seed) {}

  // `self` is this: futures keep it.
  static TensorFuture run(const std::shared_ptr<PowerSgd>& self, GradBucket& bucket) {
    if (self->iter_ < self->options_.start_power_sgd_iter) {
      self->iter_ += bucket.is_last() ? 1 : 0;
      return self->average_(bucket);
    }
    return self->compress(self, bucket);
  }

 private:
  struct Memory {
    at::Tensor p;
    at::Tensor q;
    at::Tensor error;
  };

  TensorFuture compress(const std::shared_ptr<PowerSgd>& self, GradBucket& bucket);
  Low split(const GradBucket& bucket) const;
  void place(Low& low, Memory& memory);
  void draw(const Low& low);
  void finish(const Low& low, Memory& memory) const;
  void sum(const at::Tensor& tensor) const { group_.all_reduce(tensor).wait(); }
  [[nodiscard]] std::int64_t rank_of(const at::Tensor& matrix) const {
    return std::min({matrix.size(-2), matrix.size(-1), options_.matrix_approximation_rank});
  }

  Group group_;
  PowerSgdOptions options_;
  CommHook average_;
  Seeds seeds_;
  std::map<std::size_t, Memory> memories_;  // By bucket.
  std::int64_t iter_ = 0;
};

// A gradient's memory is the matrix: with channels last, its columns just have another order.
Low PowerSgd::split(const GradBucket& bucket) const {
  Low low;
  std::vector<std::vector<at::Tensor>> by_shape;  // In the order of the first of each.
  std::int64_t at = 0;
  for (const auto& parameter : bucket.parameters()) {
    const auto gradient = bucket.buffer().narrow(0, at, parameter.numel());
    at += parameter.numel();
    const auto rows = std::max<std::int64_t>(parameter.dim() > 0 ? parameter.size(0) : 1, 1);
    const auto matrix = gradient.view({rows, parameter.numel() / rows});
    const auto sent = static_cast<double>((matrix.size(0) + matrix.size(1)) * rank_of(matrix));
    if (!(sent * options_.min_compression_rate < static_cast<double>(matrix.numel()))) {
      low.whole.push_back(gradient);
      continue;
    }
    auto same = std::find_if(by_shape.begin(), by_shape.end(), [&](const auto& others) {
      return others.front().sizes() == matrix.sizes();
    });
    if (same == by_shape.end()) {
      same = by_shape.insert(same, std::vector<at::Tensor>());
    }
    same->push_back(matrix);
  }
  low.whole_flat =
      low.whole.empty() ? at::empty({0}, bucket.buffer().options()) : at::cat(low.whole);
  for (auto& matrices : by_shape) {
    if (options_.batch_tensors_with_same_shape && matrices.size() > 1) {
      low.matrices.push_back(at::stack(matrices));
      low.originals.push_back(std::move(matrices));
      continue;
    }
    for (const auto& matrix : matrices) {
      low.matrices.push_back(matrix.unsqueeze(0));
      low.originals.emplace_back();
    }
  }
  return low;
}

// Ps and Qs lie in one tensor each, so that they travel together.
void PowerSgd::place(Low& low, Memory& memory) {
  std::int64_t p_size = 0;
  std::int64_t q_size = 0;
  for (const auto& matrix : low.matrices) {
    p_size += matrix.size(0) * matrix.size(1) * rank_of(matrix);
    q_size += matrix.size(0) * matrix.size(2) * rank_of(matrix);
  }
  const bool fresh = !options_.warm_start || !memory.p.defined() || memory.p.numel() != p_size;
  if (fresh) {
    memory.p = at::empty({p_size}, low.whole_flat.options());
    memory.q = at::empty({q_size}, low.whole_flat.options());
  }
  std::int64_t p_at = 0;
  std::int64_t q_at = 0;
  for (const auto& matrix : low.matrices) {
    const auto rank = rank_of(matrix);
    const auto cut = [&](const at::Tensor& from, std::int64_t& at, std::int64_t rows) {
      const auto view = from.narrow(0, at, matrix.size(0) * rows * rank);
      at += view.numel();
      return view.view({matrix.size(0), rows, rank});
    };
    low.ps.push_back(cut(memory.p, p_at, matrix.size(1)));
    low.qs.push_back(cut(memory.q, q_at, matrix.size(2)));
  }
  if (fresh) {
    draw(low);
  }
  for (const auto& q : low.qs) {
    orthogonalize(q, options_.orthogonalization_epsilon);
  }
}

// On the CPU and the same on all ranks, whatever their own random numbers.
void PowerSgd::draw(const Low& low) {
  const auto generator = at::detail::createCPUGenerator(seeds_.next());
  for (const auto& q : low.qs) {
    q.copy_(at::randn(q.sizes(), generator, at::TensorOptions(q.scalar_type())));
  }
}

TensorFuture PowerSgd::compress(const std::shared_ptr<PowerSgd>& self, GradBucket& bucket) {
  const auto& buffer = bucket.buffer();
  auto& memory = memories_[bucket.index()];
  at::Tensor before;
  if (options_.use_error_feedback) {
    if (memory.error.defined() && memory.error.numel() == buffer.numel()) {
      buffer.add_(memory.error);
    }
    before = buffer.clone();
  }
  auto low = split(bucket);
  place(low, memory);
  for (std::size_t i = 0; i < low.matrices.size(); ++i) {
    at::bmm_out(low.ps[i], low.matrices[i], low.qs[i]);
  }
  return TensorFuture(group_.all_reduce(low.whole_flat), low.whole_flat)
      .then([self, low, buffer, before, index = bucket.index(),
             last = bucket.is_last()](const at::Tensor&) -> at::Tensor {
        auto& kept = self->memories_.at(index);
        self->finish(low, kept);
        if (self->options_.use_error_feedback) {
          kept.error = before - buffer;
        }
        self->iter_ += last ? 1 : 0;
        return buffer;
      });
}

// The sums over the ranks of P and Q; then the gradients are what they stand for.
void PowerSgd::finish(const Low& low, Memory& memory) const {
  low.whole_flat.div_(group_.size());
  std::int64_t at = 0;
  for (const auto& gradient : low.whole) {
    gradient.copy_(low.whole_flat.narrow(0, at, gradient.numel()));
    at += gradient.numel();
  }
  sum(memory.p);
  for (std::size_t i = 0; i < low.matrices.size(); ++i) {
    orthogonalize(low.ps[i], options_.orthogonalization_epsilon);
  }
  for (std::size_t i = 0; i < low.matrices.size(); ++i) {
    at::Tensor q = low.qs[i];
    at::bmm_out(q, low.matrices[i].transpose(1, 2), low.ps[i]);
  }
  sum(memory.q);
  memory.q.div_(group_.size());
  for (std::size_t i = 0; i < low.matrices.size(); ++i) {
    at::Tensor matrix = low.matrices[i];
    at::bmm_out(matrix, low.ps[i], low.qs[i].transpose(1, 2));
    for (std::size_t j = 0; j < low.originals[i].size(); ++j) {
      low.originals[i][j].copy_(matrix[static_cast<std::int64_t>(j)]);
    }
  }
}

void require(const PowerSgdOptions& options) {
  if (options.matrix_approximation_rank < 1) {
    throw UsageError("power_sgd_hook: matrix_approximation_rank is " +
                     std::to_string(options.matrix_approximation_rank) + ", expected 1 or more");
  }
  if ((options.use_error_feedback || options.warm_start) && options.start_power_sgd_iter <= 1) {
    throw UsageError("power_sgd_hook: start_power_sgd_iter is " +
                     std::to_string(options.start_power_sgd_iter) +
                     ", expected 2 or more with use_error_feedback or warm_start: buckets change "
                     "after the first step");
  }
}

}  // namespace

CommHook power_sgd_hook(const Group& group, const PowerSgdOptions& options) {
  require(options);
  const auto state = std::make_shared<PowerSgd>(group, options);
  return [state](GradBucket& bucket) { return PowerSgd::run(state, bucket); };
}

}  // namespace lockstep
