#include "lockstep/parallel/buckets/bucket_set.h"

#include <algorithm>
#include <map>

#include "lockstep/base/heap.h"
#include "lockstep/parallel/autograd/gradient_hooks.h"

namespace lockstep::parallel {
namespace {

// Activations and the like, which are freed in between.
constexpr std::size_t kBesidesGradients = std::size_t{128} << 20;

}  // namespace

BucketSet::BucketSet(const std::vector<Parameter>& parameters, const Communication& communication,
                     const Options& options)
    : parameters_(parameters), communication_(communication), options_(options) {
  placement_ = make_placement();
}

// autograd allocates each gradient anew, and one that is not made in its bucket is freed as soon as
// it has been copied. When malloc gave that memory back to the kernel, a step of ResNet-18 took
// 13,700 page faults more: 9 % of its time (2-core Xeon, batch of 32 at 32x32, 2026-11-15).
void BucketSet::keep_memory_of_gradients() const {
  std::size_t bytes = 0;
  for (const auto& parameter : parameters_) {
    bytes += parameter.tensor.is_cpu() ? parameter.tensor.nbytes() : 0;
  }
  if (bytes > 0) {
    keep_freed_memory(bytes + kBesidesGradients, Environment::of_this_process());
  }
}

void BucketSet::set_mode(GradientBucket::Mode mode) {
  options_.mode = mode;
  placement_->close();
  placement_ = make_placement();
}

std::shared_ptr<GradientPlacement> BucketSet::make_placement() const {
  const auto place = [weak = std::weak_ptr(contents_)](std::size_t parameter) {
    const auto contents = weak.lock();
    if (!contents) {
      return GradientPlacement::Memory{};
    }
    const Place found = contents->places[parameter];
    return contents->buckets[found.bucket].memory().memory_for(found.index);
  };
  return std::make_shared<GradientPlacement>(
      bytes_to_place(),
      GradientPlacement::Callbacks{.place = place, .current_pass = current_backward});
}

// Only if one thread computes all gradients and runs all hooks, as on the CPU, because nothing is
// locked meanwhile.
std::vector<std::size_t> BucketSet::bytes_to_place() const {
  const bool possible =
      options_.allocate_in_buckets && options_.mode == GradientBucket::Mode::kViews &&
      std::all_of(parameters_.begin(), parameters_.end(),
                  [](const Parameter& parameter) { return parameter.tensor.is_cpu(); });
  std::vector<std::size_t> bytes;
  for (const auto& parameter : parameters_) {
    const bool wanted = possible && communication_.leaves_gradients(parameter);
    bytes.push_back(wanted ? parameter.tensor.nbytes() : 0);
  }
  return bytes;
}

std::vector<GradientInfo> BucketSet::infos(const std::vector<std::size_t>& order) const {
  std::map<std::pair<at::ScalarType, std::string>, int> kinds;
  std::vector<GradientInfo> found;
  for (const std::size_t i : order) {
    const auto& tensor = parameters_[i].tensor;
    const auto kind = kinds
                          .try_emplace({tensor.scalar_type(), tensor.device().str()},
                                       static_cast<int>(kinds.size()))
                          .first->second;
    found.push_back({.bytes = tensor.nbytes(), .kind = kind, .sparse = parameters_[i].sparse});
  }
  return found;
}

void BucketSet::build(const std::vector<Bucket>& plan) {
  std::vector<GradientBucket> made;
  std::vector<Place> places(parameters_.size());
  for (const auto& bucket : plan) {
    std::vector<Parameter> parameters;
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      places[bucket.parameters[i]] = {made.size(), i};
      parameters.push_back(parameters_[bucket.parameters[i]]);
    }
    made.emplace_back(
        bucket, parameters_, options_.mode,
        [this](std::int64_t elements, at::TensorOptions options) {
          return communication_.allocate(elements, options);
        },
        communication_.reduction_for(parameters, {.index = made.size(), .count = plan.size()}));
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
    const auto move = bucket.memory().leave_if_kept();
    copied_ += move.copied;
    moved_ += move.moved ? 1 : 0;
  }
  GradientPlacement::begin(placement_);
}

void BucketSet::gradient_made(std::size_t parameter, const at::Tensor& made) {
  placement_->gradient_made(parameter, parameters_[parameter].tensor.grad());
  const Place place = contents_->places[parameter];
  if (contents_->buckets[place.bucket].memory().is_kept_by_others(place.index, made)) {
    move_out(parameter);
  }
}

std::size_t BucketSet::put(std::size_t parameter) {
  const Place place = contents_->places[parameter];
  auto& bucket = contents_->buckets[place.bucket];
  if (bucket.memory().is_used_by_another(place.index)) {
    move_out(parameter);
  }
  copied_ += bucket.put(place.index);
  return place.bucket;
}

// A guess was wrong, or was right but useless. The same would happen to its neighbours: whoever
// keeps one gradient keeps all of them, and each keeps a whole bucket.
void BucketSet::move_out(std::size_t parameter) {
  auto& bucket = contents_->buckets[contents_->places[parameter].bucket];
  copied_ += bucket.memory().move_out();
  ++moved_;
  for (const std::size_t neighbour : bucket.parameters()) {
    placement_->avoid(neighbour);
  }
}

}  // namespace lockstep::parallel
