#include "lockstep/train/loop/validate.h"

namespace lockstep::train {

Scores validate(Learner& learner, data::DataLoader& loader, const Group& group,
                std::int64_t batches) {
  const Learner::Averages averages(learner);
  learner.share_buffers();  // The averages' buffers: all ranks validate one network.
  const auto device = group.device();
  Tally tally(device);
  std::int64_t done = 0;
  for (auto& [data, target] : loader) {
    if (batches > 0 && done++ == batches) {
      break;
    }
    const auto scores = learner.evaluate(data);
    const auto labels = target.to(device);
    tally.add(scores, labels, loss_of(scores, labels));
  }
  return scores_over(group, tally.sums());
}

}  // namespace lockstep::train
