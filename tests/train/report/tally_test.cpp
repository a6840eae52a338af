#include "lockstep/train/report/tally.h"

#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/comm/init_process_group.h"
#include "lockstep/data/datasets/image_folder_dataset.h"

namespace lockstep::train {
namespace {

at::Tensor scores() {
  return at::tensor(std::vector<double>{9, 8, 7, 6, 5, 4, 1, 2, 3, 4, 5, 6})
      .view({2, 6})
      .to(at::kFloat);
}

TEST(Tally, CountsTheBestAndTheBestFive) {
  Tally tally(at::kCPU);
  tally.add(scores(), at::tensor({0, 0}, at::kLong), at::scalar_tensor(0.5));
  tally.add(scores(), at::tensor({5, 4}, at::kLong), at::scalar_tensor(1.5));
  const auto found = scores_over(init_process_group({.backend = "gloo"}), tally.sums());
  EXPECT_EQ(found.samples, 4);
  EXPECT_EQ(found.loss, 1.0);
  EXPECT_EQ(found.top1, 25);  // The first of the first batch.
  EXPECT_EQ(found.top5, 50);  // And the last, whose class is the second best.
}

TEST(Tally, ProbabilitiesCountByTheirLargest) {
  Tally tally(at::kCPU);
  const auto mixed =
      at::tensor(std::vector<double>{.6, 0, 0, 0, 0, .4, 0, 0, 0, 0, .1, .9}).view({2, 6});
  tally.add(scores(), mixed, at::scalar_tensor(0.0));
  EXPECT_EQ(scores_of(tally.sums()).top1, 100);
}

TEST(Tally, FewerThanFiveClassesAreAllAmongFive) {
  Tally tally(at::kCPU);
  tally.add(scores().slice(1, 0, 2), at::tensor({1, 1}, at::kLong), at::scalar_tensor(0.0));
  EXPECT_EQ(scores_of(tally.sums()).top5, 100);
}

TEST(Tally, SumsComeBack) {
  Tally tally(at::kCPU);
  tally.set_sums({0.1, 2, 3, 4, 5});
  EXPECT_EQ(tally.sums(), (Tally::Sums{0.1, 2, 3, 4, 5}));
  tally.reset();
  EXPECT_EQ(scores_of(tally.sums()).loss, 0);
}

TEST(Tally, CountsSamplesBeforeTheFirstLossThatIsNotFinite) {
  for (const double bad : {NAN, INFINITY, -INFINITY}) {
    Tally tally(at::kCPU);
    for (const double loss : {1.0, 2.0, bad, 3.0}) {
      tally.add(scores(), at::tensor({0, 5}, at::kLong), at::scalar_tensor(loss));
    }
    EXPECT_EQ(tally.sums()[3], 8);
    EXPECT_EQ(tally.sums()[4], 4) << bad;
  }
}

TEST(LossOf, SmoothingChangesIt) {
  const auto target = at::tensor({0, 5}, at::kLong);
  EXPECT_NE(loss_of(scores(), target).item<float>(), loss_of(scores(), target, 0.1).item<float>());
}

TEST(Tally, SamplesThatAreNotCountedChangeNothing) {
  const auto three = at::tensor({2., 0., 0., 1., 0., 3., 5., 0., 0.}, at::kFloat).view({3, 3});
  const auto labels = at::tensor(std::vector<std::int64_t>{0, 2, data::kNotCounted}, at::kLong);
  Tally some(at::kCPU);
  some.add_counted(three, labels, loss_of(three, labels));
  const auto counted = three.slice(0, 0, 2);
  const auto their_labels = labels.slice(0, 0, 2);
  Tally without(at::kCPU);
  without.add(counted, their_labels, loss_of(counted, their_labels));
  EXPECT_EQ(some.sums(), without.sums());
  EXPECT_EQ(some.sums()[3], 2);
  const auto none = at::full({3}, data::kNotCounted, at::kLong);
  some.add_counted(three, none, loss_of(three, none));
  EXPECT_EQ(some.sums(), without.sums()) << "a batch of none";
}

}  // namespace
}  // namespace lockstep::train
