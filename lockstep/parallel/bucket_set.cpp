#include "lockstep/parallel/bucket_set.h"

#include <algorithm>

#include "lockstep/parallel/gradient_hooks.h"

namespace lockstep::parallel {

BucketSet::BucketSet(const std::vector<Parameter>& parameters, const Communication& communication,
                     const Options& options)
    : parameters_(parameters), communication_(communication), options_(options) {
  const auto place = [weak = std::weak_ptr(contents_)](std::size_t parameter) {
    const auto contents = weak.lock();
    if (!contents) {
      return Birthplaces::Loan{};
    }
    const Place found = contents->places[parameter];
    return contents->buckets[found.bucket].lend(found.index);
  };
  birthplaces_ = std::make_shared<Birthplaces>(
      bytes_of_births(),
      Birthplaces::Surroundings{.place = place, .current_pass = current_backward});
}

// Only where one thread makes all gradients and runs all hooks, as it does on the CPU: nothing is
// locked while they are made.
std::vector<std::size_t> BucketSet::bytes_of_births() const {
  const bool possible =
      options_.allocate_in_buckets && options_.mode == GradientBucket::Mode::kViews &&
      std::all_of(parameters_.begin(), parameters_.end(),
                  [](const Parameter& parameter) { return parameter.tensor.is_cpu(); });
  std::vector<std::size_t> bytes;
  for (const auto& parameter : parameters_) {
    const bool wanted =
        possible && !parameter.sparse && communication_.multiplies(parameter.tensor);
    bytes.push_back(wanted ? parameter.tensor.nbytes() : 0);
  }
  return bytes;
}

void BucketSet::build(const std::vector<Bucket>& plan) {
  std::vector<GradientBucket> made;
  std::vector<Place> places(parameters_.size());
  for (const auto& bucket : plan) {
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      places[bucket.parameters[i]] = {made.size(), i};
    }
    const auto& first = parameters_[bucket.parameters.front()];
    const bool in_sum = !first.sparse && communication_.multiplies(first.tensor);
    made.emplace_back(
        bucket, parameters_, options_.mode,
        [this](std::int64_t elements, at::TensorOptions options) {
          return communication_.allocate(elements, options);
        },
        in_sum ? GradientBucket::Division::kInSum : GradientBucket::Division::kBefore);
  }
  *contents_ = {.buckets = std::move(made), .places = std::move(places)};
}

void BucketSet::begin_step() {
  copied_ = 0;
  moved_ = 0;
  for (auto& bucket : contents_->buckets) {
    bucket.begin();
  }
}

void BucketSet::begin_backward() {
  for (auto& bucket : contents_->buckets) {
    const auto move = bucket.leave_kept_memory();
    copied_ += move.copied;
    moved_ += move.moved ? 1 : 0;
  }
  Birthplaces::begin(birthplaces_);
}

void BucketSet::born(std::size_t parameter, const at::Tensor& made) {
  birthplaces_->born(parameter, parameters_[parameter].tensor.grad());
  const Place place = contents_->places[parameter];
  if (contents_->buckets[place.bucket].is_kept_by_others(place.index, made)) {
    move_out(parameter);
  }
}

std::size_t BucketSet::put(std::size_t parameter) {
  const Place place = contents_->places[parameter];
  auto& bucket = contents_->buckets[place.bucket];
  if (bucket.is_lent_elsewhere(place.index)) {
    move_out(parameter);
  }
  copied_ += bucket.put(place.index, communication_.ranks());
  return place.bucket;
}

// A guess was wrong, or was right and of no use. Its neighbours would do the same: whoever keeps
// one gradient keeps all, and each of them a whole bucket.
void BucketSet::move_out(std::size_t parameter) {
  auto& bucket = contents_->buckets[contents_->places[parameter].bucket];
  copied_ += bucket.move_out();
  ++moved_;
  for (const std::size_t neighbour : bucket.parameters()) {
    birthplaces_->avoid(neighbour);
  }
}

}  // namespace lockstep::parallel
