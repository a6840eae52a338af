// All gradients in their buckets, whether they are copied there or made there.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/parallel/birthplaces.h"
#include "lockstep/parallel/bucket_plan.h"
#include "lockstep/parallel/communication.h"
#include "lockstep/parallel/gradient_bucket.h"
#include "lockstep/parallel/module_state.h"

namespace lockstep::parallel {

class BucketSet {
 public:
  struct Options {
    GradientBucket::Mode mode = GradientBucket::Mode::kViews;
    bool allocate_in_buckets = true;  // Where that can be.
  };
  // Both outlive it. It has no buckets before build().
  BucketSet(const std::vector<Parameter>& parameters, const Communication& communication,
            const Options& options);
  // A backward that failed may have left its thread with the birthplaces.
  ~BucketSet() { birthplaces_->close(); }
  BucketSet(const BucketSet&) = delete;
  BucketSet& operator=(const BucketSet&) = delete;

  // In place of those there were; gradients that are there move.
  void build(const std::vector<Bucket>& plan);
  [[nodiscard]] const std::vector<GradientBucket>& all() const { return contents_->buckets; }
  [[nodiscard]] GradientBucket& operator[](std::size_t i) { return contents_->buckets[i]; }

  // A step begins: nothing is put.
  void begin_step();
  // Between these two, gradients are made in their buckets where that can be. Before, buckets
  // leave memory that somebody kept. An end without a beginning is harmless.
  void begin_backward();
  void end_backward() { birthplaces_->end(); }
  // autograd has this parameter's gradient, which it computed as `made`.
  void born(std::size_t parameter, const at::Tensor& made);

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
  [[nodiscard]] std::vector<std::size_t> bytes_of_births() const;
  void move_out(std::size_t parameter);

  const std::vector<Parameter>& parameters_;
  const Communication& communication_;
  Options options_;
  // The birthplaces look there, and a thread may ask them when this is gone.
  std::shared_ptr<Contents> contents_ = std::make_shared<Contents>();
  std::shared_ptr<Birthplaces> birthplaces_;
  std::size_t copied_ = 0;
  std::size_t moved_ = 0;
};

}  // namespace lockstep::parallel
