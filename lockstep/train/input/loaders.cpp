#include "lockstep/train/input/loaders.h"

#include <utility>

#include "lockstep/data/samplers/random_samplers.h"
#include "lockstep/train/input/augment.h"

namespace lockstep::train {
namespace {

int workers_of(const TrainConfig& config) {
  return config.workers < 0 ? data::kAuto : config.workers;
}

}  // namespace

data::DataLoader train_loader(const TrainConfig& config, const DataSource& source,
                              const BatchPlan& batches, const Group& world) {
  data::DataLoaderOptions options;
  options.batch_size = batches.per_rank;
  options.sampler =
      data::DistributedSampler(source.train->size(), world.size(), world.rank(),
                               {.shuffle = true, .seed = config.seed, .drop_last = true});
  options.num_workers = workers_of(config);
  options.pin_memory = world.device().is_cuda();
  options.drop_last = true;
  options.generator = data::seeded_generator(config.seed);  // Loading draws from no other.
  if (world.device().is_cuda()) {
    options.device = world.device();
  }
  options.batch_transform = batch_transform(config, source);
  return data::DataLoader(training_set(config, source), std::move(options));
}

data::DataLoader evaluation_loader(const TrainConfig& config,
                                   const std::shared_ptr<const data::Dataset>& part,
                                   const BatchPlan& batches, const Group& world) {
  data::DataLoaderOptions options;
  options.batch_size = batches.validation;
  options.sampler = data::EvaluationSampler(part->size(), world.size(), world.rank());
  options.num_workers = workers_of(config);
  options.pin_memory = world.device().is_cuda();
  options.generator = data::seeded_generator(config.seed);
  if (world.device().is_cuda()) {
    options.device = world.device();
  }
  return data::DataLoader(part, std::move(options));
}

}  // namespace lockstep::train
