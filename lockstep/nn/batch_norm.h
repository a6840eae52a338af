// Batch normalization that can be told to work over the batches of all ranks.
//
// torch::nn's layers cannot: their forward is not virtual, and a member of that type cannot hold
// another layer. These have the same options, parameters, buffers and results until they are told.
#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <cstdint>
#include <optional>

#include "lockstep/nn/batch_norm_over_ranks.h"
#include "lockstep/nn/rank_exchange.h"

namespace lockstep::nn {

// What convert_sync_batchnorm() finds.
class Synchronizable {
 public:
  // In training, the statistics of a batch are those of the ranks' batches together from now on, so
  // that forward and backward are collectives. Null: of this rank's again.
  void synchronize(RankExchangePointer ranks) { ranks_ = std::move(ranks); }
  [[nodiscard]] const RankExchangePointer& ranks() const { return ranks_; }
  virtual ~Synchronizable() = default;

 protected:
  // Throws UsageError that names the layer and, if there are several, the rank, if an input has
  // less or more dimensions or is undefined. Without `most` it may have any number more.
  void require_dimensions(const at::Tensor& input, std::int64_t least,
                          std::optional<std::int64_t> most, const char* layer) const;

 private:
  RankExchangePointer ranks_;
};

// A layer's tensors; those that it does not have are undefined.
struct BatchNormTensors {
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor running_mean;
  at::Tensor running_var;
  at::Tensor num_batches_tracked;
};

// Whether normalize_in_training() has kernels of its own for such a batch of one rank.
bool has_own_kernels(const at::Tensor& input, const BatchNormTensors& tensors);

// Throws UsageError that names the rank, if the input is not of floating point or has another
// number of channels than the layer, as torch's batch normalization does.
void require_input_of(const BatchNormTensors& tensors, const at::Tensor& input,
                      const RankExchange& ranks);

// What a layer in training does with a batch, over the ranks if there are several.
at::Tensor normalize_in_training(const at::Tensor& input, const BatchNormTensors& tensors,
                                 const torch::nn::BatchNormOptions& options,
                                 const RankExchangePointer& ranks);

// Its constructors are LibTorch's, which are public.
template <std::size_t D, class Derived>
// NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility)
class BatchNormBase : public torch::nn::BatchNormImplBase<D, Derived>, public Synchronizable {
 public:
  using Local = torch::nn::BatchNormImplBase<D, Derived>;
  using Local::Local;

  at::Tensor forward(const at::Tensor& input) {
    if (!this->is_training()) {
      return Local::forward(input);
    }
    const BatchNormTensors tensors{.weight = this->weight,
                                   .bias = this->bias,
                                   .running_mean = this->running_mean,
                                   .running_var = this->running_var,
                                   .num_batches_tracked = this->num_batches_tracked};
    if (!ranks() && !has_own_kernels(input, tensors)) {
      return Local::forward(input);
    }
    this->_check_input_dim(input);
    return normalize_in_training(input, tensors, this->options, ranks());
  }
};

class BatchNorm1dImpl : public BatchNormBase<1, BatchNorm1dImpl> {
 public:
  using BatchNormBase::BatchNormBase;

 protected:
  void _check_input_dim(const at::Tensor& input) override;
};
TORCH_MODULE(BatchNorm1d);

class BatchNorm2dImpl : public BatchNormBase<2, BatchNorm2dImpl> {
 public:
  using BatchNormBase::BatchNormBase;

 protected:
  void _check_input_dim(const at::Tensor& input) override;
};
TORCH_MODULE(BatchNorm2d);

class BatchNorm3dImpl : public BatchNormBase<3, BatchNorm3dImpl> {
 public:
  using BatchNormBase::BatchNormBase;

 protected:
  void _check_input_dim(const at::Tensor& input) override;
};
TORCH_MODULE(BatchNorm3d);

}  // namespace lockstep::nn
