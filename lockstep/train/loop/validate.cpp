#include "lockstep/train/loop/validate.h"

#include <algorithm>
#include <iterator>

#include "lockstep/train/loop/agreement.h"

namespace lockstep::train {

std::optional<Scores> validate(Learner& learner, data::DataLoader& loader, const Group& group,
                               const ValidateOptions& options) {
  // A rank with one batch fewer than others calls is_stopped() as often as they do. All meet here
  // before their GPUs do: rank 0 may save for longer than a GPU would wait for it.
  std::int64_t rounds = largest(group, loader.size());
  const Learner::Averages averages(learner);
  learner.share_buffers();  // The averages' buffers: all ranks validate one network.
  const auto device = group.device();
  if (options.batches > 0) {
    rounds = std::min(rounds, options.batches);
  }
  Tally tally(device);
  auto batch = loader.begin();
  for (std::int64_t round = 0; round < rounds; ++round) {
    if (options.is_stopped && options.is_stopped()) {
      return std::nullopt;
    }
    if (batch == std::default_sentinel) {
      continue;
    }
    const auto scores = learner.evaluate(batch->data);
    const auto labels = batch->target.to(device);
    tally.add_counted(scores, labels, loss_of(scores, labels));
    ++batch;
  }
  learner.wait_for_gpu();
  return scores_over(group, tally.sums());
}

}  // namespace lockstep::train
