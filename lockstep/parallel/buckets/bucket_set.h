// All gradients in their buckets, whether they are copied or allocated there.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/parallel/buckets/bucket_plan.h"
#include "lockstep/parallel/buckets/communication.h"
#include "lockstep/parallel/buckets/gradient_bucket.h"
#include "lockstep/parallel/in_place/gradient_placement.h"
#include "lockstep/parallel/module_state.h"

namespace lockstep::parallel {

class BucketSet {
 public:
  struct Options {
    GradientBucket::Mode mode = GradientBucket::Mode::kViews;
    bool allocate_in_buckets = true;  // Where that can be.
  };
  // Both references must outlive it. There are no buckets before build().
  BucketSet(const std::vector<Parameter>& parameters, const Communication& communication,
            const Options& options);
  // A backward that failed may have left its thread with the placement.
  ~BucketSet() { placement_->close(); }
  BucketSet(const BucketSet&) = delete;
  BucketSet& operator=(const BucketSet&) = delete;

  // To be called when how gradients travel has changed, before the next build().
  void set_mode(GradientBucket::Mode mode);
  // Has malloc keep the memory that gradients take in every step.
  void keep_memory_of_gradients() const;
  // This rank adds its gradients divided by this number, until the next build().
  void set_divisor(double divisor) {
    for (auto& bucket : contents_->buckets) {
      bucket.set_divisor(divisor);
    }
  }
  // Replaces all buckets; defined gradients move along.
  void build(const std::vector<Bucket>& plan);
  // What a plan needs to know of the parameters in this order.
  [[nodiscard]] std::vector<GradientInfo> infos(const std::vector<std::size_t>& order) const;
  [[nodiscard]] const std::vector<GradientBucket>& all() const { return contents_->buckets; }
  [[nodiscard]] GradientBucket& operator[](std::size_t i) { return contents_->buckets[i]; }

  // A step begins: no gradient is in its bucket yet.
  void begin_step();
  // Between these two, gradients are allocated in their buckets where possible. begin_backward()
  // first moves buckets out of memory that somebody kept. An end without a beginning is harmless.
  void begin_backward();
  void end_backward() { placement_->end(); }
  // autograd has accumulated this parameter's gradient, which the graph computed as `made`.
  void gradient_made(std::size_t parameter, const at::Tensor& made);

  // Puts a gradient in its place; returns the number of its bucket.
  std::size_t put(std::size_t parameter);
  // Bytes of gradients that were copied in this step.
  [[nodiscard]] std::size_t copied() const { return copied_; }
  // Buckets that left their memory to others in this step.
  [[nodiscard]] std::size_t moved() const { return moved_; }

 private:
  struct Place {
    std::size_t bucket;
    std::size_t index;
  };
  struct Contents {
    std::vector<GradientBucket> buckets;
    std::vector<Place> places;  // By parameter.
  };
  [[nodiscard]] std::shared_ptr<GradientPlacement> make_placement() const;
  [[nodiscard]] std::vector<std::size_t> bytes_to_place() const;
  void move_out(std::size_t parameter);

  const std::vector<Parameter>& parameters_;
  const Communication& communication_;
  Options options_;
  // Shared with the placement, which a thread may ask after this object is gone.
  std::shared_ptr<Contents> contents_ = std::make_shared<Contents>();
  std::shared_ptr<GradientPlacement> placement_;
  std::size_t copied_ = 0;
  std::size_t moved_ = 0;
};

}  // namespace lockstep::parallel
