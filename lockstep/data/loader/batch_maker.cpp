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

BatchMaker::BatchMaker(std::shared_ptr<const Dataset> dataset, CollateFn collate_fn)
    : dataset_(std::move(dataset)), collate_fn_(std::move(collate_fn)) {}

Sample BatchMaker::make(const EpochPlan& plan, std::int64_t number) const {
  const auto indices = plan.batch(number);
  const std::string batch = "DataLoader: batch " + std::to_string(number);
  if (!collate_fn_) {
    auto whole = told(batch + ": ", [&] { return dataset_->get_batch(indices, plan.seed()); });
    if (whole) {
      return std::move(*whole);
    }
  }
  std::vector<Sample> samples;
  samples.reserve(indices.size());
  for (const std::int64_t index : indices) {
    samples.push_back(told(batch + ", sample " + std::to_string(index) + ": ",
                           [&] { return dataset_->get_in_epoch(index, plan.seed()); }));
  }
  return told(batch + ": ", [&] {
    return collate_fn_ ? collate_fn_(std::move(samples)) : default_collate(samples);
  });
}

}  // namespace lockstep::data
