// Which samples a rank sees in an epoch: torch.utils.data.DistributedSampler, index for index.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/data/samplers/sampler.h"

namespace lockstep::data {

struct DistributedSamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;  // The same on all ranks.
  // Leaves out the last samples of an epoch that do not go round; else some come twice.
  bool drop_last = false;
};

// Where a job is, whatever its number of ranks: `consumed` samples of the epoch's permutation,
// counted over all ranks, are used. What an epoch repeats to go round is not counted.
struct SamplerPosition {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;

  bool operator==(const SamplerPosition&) const = default;
};

// Every rank gets the same number of samples, and all of them together the whole data set. No
// communication and no global generator: what comes depends on the options, the epoch and the
// position alone.
class DistributedSampler : public Sampler {
 public:
  // Throws UsageError if an argument makes no sense.
  DistributedSampler(std::int64_t dataset_size, std::int64_t num_replicas, std::int64_t rank,
                     const DistributedSamplerOptions& options = {});

  // To be called before each epoch, with the same number on all ranks; else each epoch has the
  // order of epoch 0. Copies of this sampler, such as that in a loader, follow at their next epoch.
  // Another epoch than the present one starts at its beginning.
  void set_epoch(std::int64_t epoch);

  // Goes on where a job was, possibly of another number of ranks: indices() are those of the rest
  // of that epoch, and set_epoch() with its number changes nothing. Costs nothing but the
  // permutation. Throws UsageError if there is no such position in the data set.
  void resume(const SamplerPosition& position);

  // Once each rank has used the first `taken` of its indices(). Throws UsageError if there are not
  // as many.
  [[nodiscard]] SamplerPosition position_after(std::int64_t taken) const;

  // This rank's indices; a permutation of the whole data set is drawn on each call.
  [[nodiscard]] std::vector<std::int64_t> indices() const override;

  [[nodiscard]] std::int64_t size() const override;
  [[nodiscard]] std::int64_t dataset_size() const { return dataset_size_; }

 private:
  std::int64_t dataset_size_;
  std::int64_t num_replicas_;
  std::int64_t rank_;
  bool shuffle_;
  bool drop_last_;
  std::shared_ptr<SamplerPosition> start_;  // Shared by copies.
};

// Every sample exactly once over all ranks, in order: rank r has r, r + num_replicas, ... Ranks may
// differ by one sample, so an evaluation has no collective in its loop, or counts batches first.
class EvaluationSampler : public Sampler {
 public:
  // Throws UsageError if an argument makes no sense.
  EvaluationSampler(std::int64_t dataset_size, std::int64_t num_replicas, std::int64_t rank);

  [[nodiscard]] std::vector<std::int64_t> indices() const override;
  [[nodiscard]] std::int64_t size() const override;

 private:
  std::int64_t dataset_size_;
  std::int64_t num_replicas_;
  std::int64_t rank_;
};

}  // namespace lockstep::data
