// Which samples a rank sees in an epoch: torch.utils.data.DistributedSampler, index for index.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::data {

struct DistributedSamplerOptions {
  std::int64_t num_replicas = 1;
  std::int64_t rank = 0;
  bool shuffle = true;
  std::uint64_t seed = 0;  // The same on all ranks.
  // Leaves out the last samples of an epoch that do not go round; else some come twice.
  bool drop_last = false;
};

// Every rank gets the same number of samples, and all of them together the whole data set. No
// communication and no global generator: what comes depends on the options and the epoch alone.
class DistributedSampler {
 public:
  // For a data set of `dataset_size`. Throws UsageError if an option makes no sense.
  explicit DistributedSampler(std::int64_t dataset_size,
                              const DistributedSamplerOptions& options = {});

  // To be called before each epoch, with the same number on all ranks; else each epoch has the
  // order of epoch 0.
  void set_epoch(std::int64_t epoch) { epoch_ = epoch; }

  // Of this rank in this epoch; a permutation of the whole data set is drawn on each call.
  [[nodiscard]] std::vector<std::int64_t> indices() const;

  // How many indices() there are, in every epoch.
  [[nodiscard]] std::int64_t size() const;

 private:
  std::int64_t dataset_size_;
  DistributedSamplerOptions options_;
  std::int64_t epoch_ = 0;
};

}  // namespace lockstep::data
