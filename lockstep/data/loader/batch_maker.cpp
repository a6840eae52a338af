#include "lockstep/data/loader/batch_maker.h"

#include <string>
#include <utility>

#include "lockstep/data/datasets/error_place.h"
#include "lockstep/data/loader/collate.h"

namespace lockstep::data {
namespace {

std::string batch_name(std::int64_t number) {
  return "DataLoader: batch " + std::to_string(number);
}

}  // namespace

BatchMaker::BatchMaker(std::shared_ptr<const Dataset> dataset, CollateFn collate_fn,
                       BatchTransform batch_transform)
    : dataset_(std::move(dataset)),
      collate_fn_(std::move(collate_fn)),
      batch_transform_(std::move(batch_transform)) {}

Sample BatchMaker::make(const EpochPlan& plan, std::int64_t number) const {
  if (!collate_fn_) {
    auto whole = with_place([&] { return batch_name(number) + ": "; },
                            [&] { return dataset_->get_batch(plan.batch(number), plan.seed()); });
    if (whole) {
      return transformed(plan, number, std::move(*whole));
    }
  }
  Started batch = start(plan, number);
  for (std::size_t place = 0; place < plan.batch(number).size(); ++place) {
    make_sample(plan, number, batch, place);
  }
  return finish(plan, number, std::move(batch));
}

BatchMaker::Started BatchMaker::start(const EpochPlan& plan, std::int64_t number) const {
  Started batch;
  if (!collate_fn_) {
    batch.in_place =
        with_place([&] { return batch_name(number) + ": "; },
                   [&] { return dataset_->start_batch(plan.batch(number), plan.seed()); });
  }
  if (!batch.in_place) {
    batch.samples.resize(plan.batch(number).size());
  }
  return batch;
}

void BatchMaker::make_sample(const EpochPlan& plan, std::int64_t number, Started& batch,
                             std::size_t place) const {
  const std::int64_t index = plan.batch(number)[place];
  with_place([&] { return batch_name(number) + ", sample " + std::to_string(index) + ": "; },
             [&] {
               if (batch.in_place) {
                 batch.in_place->make(place);
               } else {
                 batch.samples[place] = dataset_->get_in_epoch(index, plan.seed());
               }
             });
}

Sample BatchMaker::finish(const EpochPlan& plan, std::int64_t number, Started batch) const {
  return transformed(plan, number,
                     with_place([&] { return batch_name(number) + ": "; },
                                [&] {
                                  if (batch.in_place) {
                                    return batch.in_place->finish();
                                  }
                                  return collate_fn_ ? collate_fn_(std::move(batch.samples))
                                                     : default_collate(batch.samples);
                                }));
}

Sample BatchMaker::transformed(const EpochPlan& plan, std::int64_t number, Sample batch) const {
  if (!batch_transform_) {
    return batch;
  }
  // By its first sample: the number of a batch changes where a job is resumed, and is the same on
  // all ranks.
  const auto first = plan.batch(number).empty() ? 0 : plan.batch(number).front();
  auto random =
      SampleRandom::of_batch(plan.seed().seed, static_cast<std::uint64_t>(plan.seed().epoch),
                             static_cast<std::uint64_t>(first));
  return with_place([&] { return batch_name(number) + ": "; },
                    [&] { return batch_transform_(std::move(batch), random); });
}

}  // namespace lockstep::data
