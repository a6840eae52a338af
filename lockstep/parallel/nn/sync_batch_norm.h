// Batch normalization whose statistics are those of all ranks' batches together, as
// torch.nn.SyncBatchNorm; here on the CPU too.
//
//   lockstep::convert_sync_batchnorm(*net, world);
//   lockstep::DistributedDataParallel ddp(net, world);
#pragma once

#include "lockstep/comm/group.h"
#include "lockstep/nn/batch_norm.h"

namespace lockstep {

using SyncBatchNormOptions = torch::nn::BatchNormOptions;

// Takes [N, C, ...]. In training, forward is a collective of the group, and so is backward if the
// input requires a gradient: all ranks must call them equally often and in the same order. Batches
// may be empty or differ in size. In evaluation, and in a group of one rank, it is a plain layer.
class SyncBatchNormImpl : public torch::nn::Cloneable<SyncBatchNormImpl>,
                          public nn::Synchronizable {
 public:
  SyncBatchNormImpl(const SyncBatchNormOptions& the_options, const Group& group);
  // Shares another layer's tensors; it has the same options.
  SyncBatchNormImpl(const SyncBatchNormOptions& the_options, const Group& group,
                    const nn::BatchNormTensors& shared);

  at::Tensor forward(const at::Tensor& input);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  SyncBatchNormOptions options;
  nn::BatchNormTensors tensors;

 private:
  void register_tensors();
};
TORCH_MODULE(SyncBatchNorm);

// Makes all batch normalization inside the module work over the group, before the module is
// wrapped. Parameters, buffers and their names stay. Layers of lockstep::nn, which lockstep::models
// use, and SyncBatchNorms are told to; those of torch::nn in a torch::nn::Sequential are replaced
// by SyncBatchNorms. One elsewhere cannot be replaced, because its parent holds it by its type:
// then it throws UsageError that names it, and changes nothing. Returns how many layers it found.
std::size_t convert_sync_batchnorm(torch::nn::Module& module, const Group& group);

}  // namespace lockstep
