#include "lockstep/parallel/buckets/reduction.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/mul.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "lockstep/device/pieces.h"

namespace lockstep::parallel {
namespace {

// torch.distributed._make_nccl_premul_sum; its C++ name differs between versions.
c10d::ReduceOp sum_times(double factor) {
  c10d::ReduceOp op;
  op.op_ = c10d::ReduceOp::PREMUL_SUM;
  op.supplement_ = c10::make_intrusive<c10d::NCCLPreMulSumSupplement>(factor);
  return op;
}

// Then a product with its reciprocal is exact.
bool is_power_of_two(double number) {
  int exponent = 0;
  return std::frexp(number, &exponent) == 0.5;
}

}  // namespace

Average::Average(int ranks, Divide divide, AllReduce all_reduce)
    : divisor_(ranks), divide_(divide), all_reduce_(std::move(all_reduce)) {}

// Gradients go straight to the c10d backend, past Group::all_reduce() with its numbering and
// checks.
std::unique_ptr<Average> Average::over(const Group& group, const at::Tensor& like, bool sparse) {
  const bool in_sum = !sparse && can_divide_in_sum(group, like);
  return std::make_unique<Average>(
      group.size(), in_sum ? Divide::kInSum : Divide::kBefore,
      [group](const at::Tensor& flat, const c10d::ReduceOp& op) {
        std::vector<at::Tensor> tensors{flat};
        c10d::AllreduceOptions options;
        options.reduceOp = op;
        return group.backend(flat.device().type())->allreduce(tensors, options);
      });
}

// On the CPU half-precision products would have to be rounded before they are added. NCCL may fuse
// the product with the sum, which makes no difference if the product is exact; start() sees to it
// where the divisor is not the number of ranks.
bool Average::can_divide_in_sum(const Group& group, const at::Tensor& like) {
  if (like.is_cuda()) {
    return std::has_single_bit(static_cast<unsigned>(group.size())) && like.is_floating_point() &&
           group.can(Capability::kPremultipliesOnGpu, at::kCUDA);
  }
  return like.is_cpu() && (like.scalar_type() == at::kFloat || like.scalar_type() == at::kDouble) &&
         group.can(Capability::kPremultiplies);
}

void Average::mark(std::size_t i, bool divided) {
  divided_.resize(std::max(divided_.size(), i + 1));
  divided_[i] = divided;
}

// PyTorch multiplies by the reciprocal here and divides what was added: the last bit can differ.
void Average::copy_in(std::size_t i, const at::Tensor& place, const at::Tensor& gradient) {
  mark(i, divide_ == Divide::kBefore);
  if (divide_ == Divide::kInSum) {
    place.copy_(gradient.detach());
    return;
  }
  const auto factor = at::native::wrapped_scalar_tensor(1.0 / divisor_);
  if (gradient.requires_grad()) {  // backward(create_graph=true): the copy has no history.
    place.copy_(gradient.detach().mul(factor));
  } else {
    at::Tensor out = place;
    at::mul_out(out, gradient, factor);
  }
}

void Average::added_in_place(std::size_t i, const at::Tensor& place) {
  place.div_(divisor_);
  mark(i, true);
}

void Average::copy_all_in(const std::vector<at::Tensor>& places,
                          const std::vector<at::Tensor>& gradients) {
  const device::Pieces pieces(places);
  at::_foreach_copy_(pieces.of(places), pieces.of(gradients));
  if (divide_ == Divide::kBefore) {
    at::_foreach_mul_(places, 1.0 / divisor_);
  }
}

Reduction::WorkPointer Average::start(const at::Tensor& flat,
                                      const std::vector<at::Tensor>& places) {
  // All ranks name one operation, whatever each of them has divided: NCCL asks for that.
  const auto sum = [&](double factor) {
    return all_reduce_(
        flat, divide_ == Divide::kInSum ? sum_times(factor) : c10d::ReduceOp(c10d::ReduceOp::SUM));
  };
  if (std::isinf(divisor_)) {  // The gradients of an empty batch may be no numbers.
    flat.zero_();
    return sum(1);
  }
  const bool some_divided = std::find(divided_.begin(), divided_.end(), true) != divided_.end();
  if (!some_divided && divide_ == Divide::kInSum) {
    if (flat.is_cuda() && !is_power_of_two(divisor_)) {
      flat.mul_(1.0 / divisor_);
      return sum(1);
    }
    return sum(1.0 / divisor_);
  }
  divided_.resize(places.size());
  for (std::size_t i = 0; some_divided && i < places.size(); ++i) {
    if (!divided_[i]) {
      places[i].mul_(1.0 / divisor_);
    }
  }
  return sum(1);
}

}  // namespace lockstep::parallel
