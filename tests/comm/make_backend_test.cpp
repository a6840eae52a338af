#include "lockstep/comm/make_backend.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <thread>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/spawn.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void expect_sum(const BackendOptions& options, const std::string& speaks) {
  const std::string path = ::testing::TempDir() + "make_backend" + std::to_string(::getpid());
  EXPECT_NO_THROW(spawn(2, [&](int rank) {
    const auto store = c10::make_intrusive<c10d::FileStore>(path, 2);
    const auto backend = make_backend(store, rank, 2, options);
    std::vector<at::Tensor> tensors{at::full({3}, rank + 1.0)};
    backend->allreduce(tensors)->wait();
    backend->barrier()->wait();
    if (tensors[0].sum().item<double>() != 9 || backend->getBackendName() != speaks) {
      throw std::runtime_error("wrong: " + backend->getBackendName());
    }
  }));
}

TEST(MakeBackend, IsCalledAsItWasAskedFor) { expect_sum({}, "lockstep"); }

TEST(MakeBackend, TakesTheNamesOfInitProcessGroup) { expect_sum({.name = "gloo"}, "gloo"); }

TEST(MakeBackend, AStoreServesOneBackendAfterTheOther) {
  const std::string path = ::testing::TempDir() + "one_by_one" + std::to_string(::getpid());
  EXPECT_NO_THROW(spawn(2, [&](int rank) {
    const auto store = c10::make_intrusive<c10d::FileStore>(path, 2);
    for (const char* name : {"lockstep", "gloo", "lockstep", "gloo"}) {
      const auto backend = make_backend(store, rank, 2, {.name = name});
      backend->barrier()->wait();
      backend->shutdown();
      if (rank == 0) {  // The other comes first, and finds what it left in the store.
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    }
  }));
}

TEST(MakeBackend, ArgumentsThatCannotBeAreNamed) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto expect_usage = [&](const char* text, const auto& call) {
    EXPECT_THAT(call, ThrowsMessage<UsageError>(HasSubstr(text))) << text;
  };
  expect_usage("rank", [&] { make_backend(store, 2, 2); });
  expect_usage("the store is null", [&] { make_backend(nullptr, 0, 1); });
  expect_usage("'glou'", [&] { make_backend(store, 0, 1, {.name = "glou"}); });
  expect_usage("the timeout is 0 ms",
               [&] { make_backend(store, 0, 1, {.timeout = std::chrono::milliseconds(0)}); });
}

TEST(MakeBackend, ARankThatAsksForAnotherSizeOrBackendIsNamed) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::thread first([&] {
    EXPECT_THAT(
        [&] { make_backend(store, 0, 2, {.timeout = std::chrono::seconds(2)}); },
        ThrowsMessage<PeerError>(AllOf(HasSubstr("make_backend on rank 0 of 2"),
                                       HasSubstr("asks for the backend 'gloo' and a group of 2"))));
  });
  store->wait({"lockstep/rank_info/first"}, std::chrono::seconds(30));
  EXPECT_THAT([&] { make_backend(store, 1, 3); },
              ThrowsMessage<UsageError>(HasSubstr("rank 0 asks for the backend 'lockstep' and "
                                                  "a group of 2")));
  EXPECT_THAT([&] { make_backend(store, 1, 2, {.name = "gloo"}); },
              ThrowsMessage<UsageError>(HasSubstr("rank 1 asks for the backend 'gloo'")));
  first.join();
}

TEST(MakeBackend, ARankThatDoesNotComeIsAPeerErrorInTime) {
  EXPECT_THAT(
      [] {
        make_backend(c10::make_intrusive<c10d::HashStore>(), 0, 2,
                     {.timeout = std::chrono::milliseconds(200)});
      },
      ThrowsMessage<PeerError>(
          AllOf(HasSubstr("make_backend on rank 0 of 2: rank 0 of 2 waited 200 ms"),
                HasSubstr("rank 1 did not join"))));
}

}  // namespace
}  // namespace lockstep
