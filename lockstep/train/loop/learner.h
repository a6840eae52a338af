// A network with all that changes while it learns: optimizer, schedule, scale of the loss,
// averages.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/data/datasets/dataset.h"
#include "lockstep/device/graphed_step.h"
#include "lockstep/models/network.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/amp/gradient_check.h"
#include "lockstep/train/amp/opt_level.h"
#include "lockstep/train/checkpoint/checkpoint.h"
#include "lockstep/train/config/batch_plan.h"
#include "lockstep/train/config/config.h"
#include "lockstep/train/optim/lr_scheduler.h"
#include "lockstep/train/optim/model_ema.h"
#include "lockstep/train/report/tally.h"

namespace lockstep::train {

// Making it, backward() and load() are collectives of all ranks.
class Learner {
 public:
  // Moves the network to the rank's device.
  Learner(const TrainConfig& config, const BatchPlan& batches,
          std::shared_ptr<models::Network> network, const Group& group);

  // A whole step with one batch: backward() and update(). On a GPU it is recorded as one CUDA graph
  // and replayed, unless --no-cuda-graph. `tally` is the same one in each call, and outlives this.
  void step(const data::Sample& batch, Tally& tally);

  // The number of the step that follows, for errors.
  void begin_step(std::int64_t number) { step_ = number; }
  // The first parameter whose gradient was infinite or NaN in the last step, which was left out on
  // all ranks (--nonfinite skip).
  [[nodiscard]] const std::optional<std::string>& skipped() const { return skipped_; }

  // For steps of several batches. Forward and backward of one batch; of a step's last one the
  // gradients are averaged.
  void backward(const data::Sample& batch, bool is_last, Tally& tally);
  // One step of optimizer, schedule and averages, with the gradients since the last one.
  void update();

  // The network's scores in evaluation mode, without gradients. Ranks need not call it equally
  // often.
  [[nodiscard]] at::Tensor evaluate(const at::Tensor& batch);
  // Takes rank 0's buffers, such as running means, on all ranks, so that all evaluate one network.
  void share_buffers();

  // While it lives, the network has the averages of its weights, if there are any.
  class Averages {
   public:
    explicit Averages(Learner& learner);
    ~Averages();
    Averages(const Averages&) = delete;
    Averages& operator=(const Averages&) = delete;

   private:
    Learner& learner_;
    std::vector<at::Tensor> weights_;
  };

  // Model, averages, optimizer, schedule, scaler and master weights. Tensors are not copied.
  void save_to(Checkpoint& checkpoint) const;
  // All of that. Throws UsageError or IoError that says what does not fit.
  void load(const Checkpoint& checkpoint);
  // The weights alone, of a checkpoint's averages if it has such; what has another shape, such as
  // the head for other classes, is left out. Returns the names that were not set. Throws UsageError
  // if none fits.
  std::vector<std::string> load_weights(const Checkpoint& checkpoint);

  // Waits until this rank's GPU has done its work, sums over ranks among it. Throws PeerError if a
  // rank ended or is late. To be called before results are read, which would wait for ever.
  void wait_for_gpu() const { group_.synchronize(); }

  // What became of the recording of step(), as GraphedStep tells it; before the first one neither.
  [[nodiscard]] bool is_recorded() const { return recorded_ && recorded_->is_recorded(); }
  [[nodiscard]] std::string why_eager() const { return recorded_ ? recorded_->why_eager() : ""; }

  [[nodiscard]] double lr() const { return optimizer_->lr(); }
  [[nodiscard]] torch::nn::Module& module() const { return *network_; }
  [[nodiscard]] DistributedDataParallelStats stats() const { return ddp_->stats(); }
  [[nodiscard]] std::int64_t parameters() const;

 private:
  using Step = std::function<at::Tensor(const at::Tensor& data, const at::Tensor& target)>;

  at::Tensor backward(const at::Tensor& data, const at::Tensor& target, Tally& tally);
  void update_weights();
  [[nodiscard]] bool are_gradients_finite();
  [[nodiscard]] at::Tensor prepared(const at::Tensor& batch) const;
  [[nodiscard]] StateDict masters() const;

  const TrainConfig& config_;
  BatchPlan batches_;
  Group group_;
  at::Device device_;
  std::shared_ptr<models::Network> network_;
  std::optional<amp::MixedPrecision> amp_;
  std::optional<DistributedDataParallel<models::Network>> ddp_;
  std::optional<amp::GradientCheck> check_;  // After what it looks at.
  std::int64_t step_ = 0;
  std::optional<std::string> skipped_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::shared_ptr<optim::LRScheduler> scheduler_;
  std::optional<optim::ModelEma> ema_;
  std::optional<GraphedStep<Step>> recorded_;  // Made by the first step().
};

}  // namespace lockstep::train
