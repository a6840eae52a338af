#include "lockstep/train/loop/trainer.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "lockstep/train/input/image_parts.h"
#include "lockstep/train/input/loaders.h"
#include "lockstep/train/loop/validate.h"

namespace lockstep::train {
namespace {

std::vector<int> all_ranks(const Group& group) {
  std::vector<int> ranks(static_cast<std::size_t>(group.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

bool stops_early(const TrainConfig& config, const Position& position) {
  return config.early_stop > 0 && position.stale_epochs >= config.early_stop;
}

}  // namespace

Trainer::Trainer(const TrainConfig& config, const DataSource& data, const BatchPlan& batches,
                 Learner& learner, const Group& world, TrainerOptions options)
    : config_(config),
      data_(data),
      batches_(batches),
      learner_(learner),
      world_(world),
      control_(world.new_group(all_ranks(world))),
      options_(std::move(options)),
      train_loader_(train_loader(config, data, batches, world)),
      validation_loader_(evaluation_loader(config, data.validation, batches, world)),
      ahead_(world.device(), wait_for_step()),
      epoch_(world.device()),
      interval_(world.device()) {}

// Another rank may be gone, or late, and a GPU that sums over the ranks waits for it.
device::StepsAhead::Wait Trainer::wait_for_step() const {
  if (world_.size() == 1) {
    return nullptr;
  }
  return [this](const std::function<bool()>& is_done) {  // For the second one before this step.
    world_.wait_for("step " + std::to_string(position_.step - 1) + " on the GPU", is_done);
  };
}

bool is_at_end(const TrainConfig& config, const Position& position) {
  return position.epoch >= config.epochs || stops_early(config, position);
}

void Trainer::warn(const std::string& warning) const {
  tell([&](Observer& observer) { observer.on_warning(warning); });
}

void Trainer::tell(const std::function<void(Observer&)>& what) const {
  for (auto* observer : options_.observers) {
    what(*observer);
  }
}

bool Trainer::is_due(std::int64_t interval) const {
  return interval > 0 && position_.step % interval == 0;
}

Outcome Trainer::run() {
  const auto begun = std::chrono::steady_clock::now();
  while (!is_at_end(config_, position_) && outcome_.stopped_by == 0) {
    train_epoch();
    if (outcome_.stopped_by == 0) {
      prefetch_next_epoch();
      finish_epoch();
    }
  }
  if (outcome_.stopped_by == 0) {
    outcome_.test = test_once();
  }
  if (outcome_.test) {
    tell([&](Observer& observer) { observer.on_test(position_, *outcome_.test); });
  }
  outcome_.early = stops_early(config_, position_);
  outcome_.position = position_;
  outcome_.times = clock_.times(learner_.stats().waiting_seconds);
  outcome_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return outcome_;
}

void Trainer::train_epoch() {
  epoch_rate_ = 0;
  if (position_.step_in_epoch >= batches_.steps_per_epoch) {
    return;
  }
  train_loader_.load_state_dict(
      {config_.seed, position_.epoch, position_.step_in_epoch * batches_.global});
  const auto seconds_before = clock_.times(0).total;
  const auto samples_before = outcome_.samples;
  clock_.start();
  const auto waited_since = PhaseClock::Clock::now();
  auto batch = train_loader_.begin();
  clock_.add_data(PhaseClock::Clock::now() - waited_since);
  while (position_.step_in_epoch < batches_.steps_per_epoch && !is_stopped()) {
    one_step(batch);
  }
  clock_.stop();
  epoch_rate_ = static_cast<double>(outcome_.samples - samples_before) /
                (clock_.times(0).total - seconds_before);
  // At an epoch's end, too: whatever happens in the validation costs no step.
  save({});
}

// The validation leaves time to make its first batches.
void Trainer::prefetch_next_epoch() {
  if (position_.epoch + 1 < config_.epochs) {
    train_loader_.load_state_dict({config_.seed, position_.epoch + 1, 0});
    train_loader_.prefetch();
  }
}

// All ranks meet here before each step and each batch of validation, so whoever is early waits
// here, and all stop at one place.
bool Trainer::is_stopped() {
  const auto since = PhaseClock::Clock::now();
  outcome_.stopped_by =
      static_cast<int>(largest(control_, options_.signal ? options_.signal() : 0));
  clock_.add_communication(PhaseClock::Clock::now() - since);
  return outcome_.stopped_by != 0;
}

void Trainer::one_step(data::DataLoader::Iterator& batch) {
  const auto load_next = [&] {
    const auto waited_since = PhaseClock::Clock::now();
    ++batch;
    clock_.add_data(PhaseClock::Clock::now() - waited_since);
  };
  position_.lr = learner_.lr();
  learner_.begin_step(position_.step + 1);
  if (batches_.accumulation == 1) {
    learner_.step(*batch, interval_);
    load_next();
  } else {
    for (std::int64_t pass = 1; pass <= batches_.accumulation; ++pass) {
      learner_.backward(*batch, pass == batches_.accumulation, interval_);
      load_next();
    }
    learner_.update();
  }
  ahead_.after_step();
  ++position_.step_in_epoch;
  ++position_.step;
  if (const auto& parameter = learner_.skipped()) {
    warn("step " + std::to_string(position_.step) + " was left out: the gradient of '" +
         *parameter + "' was infinite or NaN");
  }
  outcome_.samples += batches_.global;
  work_.add(clock_.times(learner_.stats().waiting_seconds));
  tell([&](Observer& observer) { observer.on_step(position_); });
  if (is_due(config_.log_interval) || position_.step_in_epoch == batches_.steps_per_epoch) {
    finish_interval();
  } else if (is_due(SlowRankWatch::kSteps)) {
    look_for_slow_rank();
  }
  if (options_.each) {
    options_.each(position_.step);
  }
  if (is_due(config_.checkpoint_interval) && position_.step_in_epoch < batches_.steps_per_epoch) {
    save({});
  }
}

void Trainer::finish_interval() {
  const auto times = clock_.times(learner_.stats().waiting_seconds);
  learner_.wait_for_gpu();
  const auto sums = interval_.sums();
  const auto parts = gather(control_, IntervalPart{sums, times - marked_times_, work_.last()});
  std::vector<Tally::Sums> ranks;
  std::ranges::transform(parts, std::back_inserter(ranks), &IntervalPart::sums);
  require_finite(ranks);
  auto interval = interval_of(parts);
  if (auto named = slow_ranks_.look(parts); !named.empty()) {
    interval.slow_rank = std::move(named);  // With the table, since it is news.
  }
  marked_times_ = times;
  interval.position = position_;
  interval.lr = position_.lr;
  if (options_.gpu_use) {
    interval.gpu = options_.gpu_use();
    outcome_.gpu.add(*interval.gpu);
  }
  auto whole = epoch_.sums();
  std::transform(whole.begin(), whole.end(), sums.begin(), whole.begin(), std::plus<>());
  epoch_.set_sums(whole);
  interval_.reset();
  tell([&](Observer& observer) { observer.on_interval(interval); });
}

void Trainer::look_for_slow_rank() {
  const auto text = slow_ranks_.look(control_, work_.last());
  if (!text.empty()) {
    tell([&](Observer& observer) { observer.on_slow_rank(text); });
  }
}

std::optional<Scores> Trainer::score(data::DataLoader& loader) {
  const auto scores =
      validate(learner_, loader, control_,
               {.batches = config_.fast_dev_run, .is_stopped = [this] { return is_stopped(); }});
  if (scores) {  // On all ranks or on none.
    require_few_bad_files(control_, data_);
  }
  return scores;
}

std::optional<Scores> Trainer::validate_once() { return score(validation_loader_); }

std::optional<Scores> Trainer::test_once() {
  if (!data_.test) {
    return std::nullopt;
  }
  auto loader = evaluation_loader(config_, data_.test, batches_, world_);
  return score(loader);
}

void Trainer::finish_epoch() {
  const auto validation = validate_once();
  if (!validation) {
    return;  // The checkpoint from before it stands.
  }
  Epoch epoch;
  epoch.train = scores_over(control_, epoch_.sums());
  epoch.validation = *validation;
  epoch.lr = position_.lr;
  epoch.samples_per_second = epoch_rate_;
  epoch.is_best = epoch.validation.top1 > position_.best_top1;
  epoch.position = position_;
  if (epoch.is_best) {
    position_.best_top1 = epoch.validation.top1;
    position_.best_epoch = position_.epoch;
  }
  position_.stale_epochs = epoch.is_best ? 0 : position_.stale_epochs + 1;
  outcome_.last = epoch.validation;
  ++position_.epoch;
  position_.step_in_epoch = 0;
  epoch_.reset();
  tell([&](Observer& observer) { observer.on_epoch(epoch); });
  save({.best = epoch.is_best});
}

}  // namespace lockstep::train
