#include "lockstep/data/loader/batch_maker.h"

#include <exception>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/loader/collate.h"

namespace lockstep::data {
namespace {

// What `make` gives; what it throws says where it happened.
template <class Function>
auto told(const std::string& where, const Function& make) {
  try {
    return make();
  } catch (const UsageError& error) {
    throw UsageError(where + error.what());
  } catch (const IoError& error) {
    throw IoError(where + error.what());
  } catch (const PeerError& error) {
    throw PeerError(where + error.what());
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(where + error.what()));
  }
}

}  // namespace

BatchMaker::BatchMaker(std::shared_ptr<const Dataset> dataset, CollateFn collate_fn,
                       BatchTransform batch_transform)
    : dataset_(std::move(dataset)),
      collate_fn_(std::move(collate_fn)),
      batch_transform_(std::move(batch_transform)) {}

Sample BatchMaker::make(const EpochPlan& plan, std::int64_t number) const {
  const std::string name = "DataLoader: batch " + std::to_string(number);
  Sample batch = gather(plan, number, name);
  if (!batch_transform_) {
    return batch;
  }
  // By its first sample: the number of a batch changes where a job is resumed, and is the same on
  // all ranks.
  const auto first = plan.batch(number).empty() ? 0 : plan.batch(number).front();
  auto random =
      SampleRandom::of_batch(plan.seed().seed, static_cast<std::uint64_t>(plan.seed().epoch),
                             static_cast<std::uint64_t>(first));
  return told(name + ": ", [&] { return batch_transform_(std::move(batch), random); });
}

Sample BatchMaker::gather(const EpochPlan& plan, std::int64_t number,
                          const std::string& name) const {
  const auto indices = plan.batch(number);
  if (!collate_fn_) {
    auto whole = told(name + ": ", [&] { return dataset_->get_batch(indices, plan.seed()); });
    if (whole) {
      return std::move(*whole);
    }
  }
  std::vector<Sample> samples;
  samples.reserve(indices.size());
  for (const std::int64_t index : indices) {
    samples.push_back(told(name + ", sample " + std::to_string(index) + ": ",
                           [&] { return dataset_->get_in_epoch(index, plan.seed()); }));
  }
  return told(name + ": ", [&] {
    return collate_fn_ ? collate_fn_(std::move(samples)) : default_collate(samples);
  });
}

}  // namespace lockstep::data
