#include "lockstep/parallel/buckets/hook_reduction.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>

#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/parallel/hooks/hook_error.h"

namespace lockstep::parallel {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

HookReduction with(const CommHook& hook) { return {hook, {}, {at::ones({2, 2})}}; }

TEST(HookReduction, GivesTheHookGradientsAsTheyAre) {
  at::Tensor seen;
  auto reduction = with([&](GradBucket& bucket) {
    seen = bucket.gradients()[0].clone();
    return TensorFuture(bucket.buffer());
  });
  const auto flat = at::zeros({4});
  const auto place = flat.view({2, 2});
  reduction.copy_in(0, place, at::ones({2, 2}) * 3);
  reduction.start(flat, {place})->wait();
  EXPECT_TRUE(seen.equal(at::ones({2, 2}) * 3));
  EXPECT_TRUE(reduction.leaves_gradients());
}

TEST(HookReduction, TakesTheResultWhateverItsType) {
  auto reduction = with(
      [](GradBucket& bucket) { return TensorFuture(bucket.buffer().to(at::kHalf).add_(0.5)); });
  const auto flat = at::ones({4});
  reduction.start(flat, {})->wait();
  EXPECT_TRUE(flat.equal(at::ones({4}) * 1.5));
}

TEST(HookReduction, RefusesAResultOfAnotherSize) {
  auto reduction = with([](GradBucket&) { return TensorFuture(at::ones({3})); });
  const auto work = reduction.start(at::ones({4}), {});
  EXPECT_THAT([&] { work->wait(); },
              ThrowsMessage<UsageError>(HasSubstr("made 3 elements of a bucket, expected its 4")));
  auto nothing = with([](GradBucket&) { return TensorFuture(at::Tensor()); });
  const auto empty = nothing.start(at::ones({4}), {});
  EXPECT_THAT([&] { empty->wait(); }, ThrowsMessage<UsageError>(HasSubstr("an undefined tensor")));
}

TEST(HookReduction, TellsWhatTheHookThrewFromErrorsOfItsCollectives) {
  auto broken = with([](GradBucket&) -> TensorFuture { throw std::out_of_range("no such code"); });
  try {
    broken.start(at::ones({4}), {});
    FAIL() << "nothing was thrown";
  } catch (const HookError& error) {
    EXPECT_STREQ(error.what(), "the communication hook threw: no such code");
    EXPECT_THROW(std::rethrow_exception(error.cause()), std::out_of_range);
  }
  auto later = with([](GradBucket& bucket) {
    return TensorFuture(bucket.buffer()).then([](at::Tensor) -> at::Tensor { throw 5; });
  });
  const auto work = later.start(at::ones({4}), {});
  EXPECT_THAT([&] { work->wait(); }, ThrowsMessage<HookError>(HasSubstr("is no std::exception")));
  auto alone = with([](GradBucket&) -> TensorFuture { throw PeerError("a rank is gone"); });
  EXPECT_THROW(alone.start(at::ones({4}), {}), PeerError);
}

}  // namespace
}  // namespace lockstep::parallel
