#include "lockstep/comm/library_errors.h"

#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <system_error>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/socket.h"
#include "lockstep/comm/backends/gloo/headers/gloo/declarations.h"
#include "tests/comm/ranks.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

// Nothing if it does not throw.
std::optional<Fault> fault_in(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    const Fault fault = fault_of(error);
    ::testing::Test::RecordProperty("words", words_of(error));
    return fault;
  }
  return std::nullopt;
}

TEST(FaultOf, IsToldByTypesWhereThereAreAny) {
  EXPECT_EQ(fault_of(gloo::IoException("of any words")), Fault::kConnection);
  EXPECT_EQ(fault_of(ConnectionLost("of any words")), Fault::kConnection);
  EXPECT_EQ(fault_of(UsageError("a connection timed out")), Fault::kArguments);
  EXPECT_EQ(fault_of(PeerError("of any words", PeerError::Cause::kLate)), Fault::kLate);
  EXPECT_EQ(fault_of(PeerError("timed out")), Fault::kConnection);
  EXPECT_EQ(fault_of(std::runtime_error("Connection closed")), Fault::kHere);
  EXPECT_EQ(fault_in([] { TORCH_CHECK_VALUE(false, "a timeout"); }), Fault::kArguments);
  EXPECT_EQ(fault_in([] { TORCH_CHECK_TYPE(false, "a timeout"); }), Fault::kArguments);
}

// As c10d writes them; tests/comm/backends/nccl/backend_test.cpp lets NCCL fail on a GPU.
TEST(WordsOf, NameRank0IfNcclWaitsForItsId) {
  const c10::DistBackendError error(
      {__func__, __FILE__, 1},
      "[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value "
      "store by key '0', but store->get('0') got error: wait timeout after 3000ms, keys: /0//0\n"
      "Exception raised from somewhere. This may indicate a possible application crash on rank 0.");
  EXPECT_EQ(words_of(error),
            "rank 0 has begun no collective on GPUs, and NCCL needs an id of it (wait timeout "
            "after 3000ms, keys: /0//0)");
  EXPECT_EQ(fault_of(error), Fault::kLate);
}

TEST(WordsOf, HaveNcclsOwn) {
  const c10::DistBackendError error(
      {__func__, __FILE__, 1},
      "NCCL error in: NCCLUtils.cpp:94, invalid usage (run with NCCL_DEBUG=WARN for details)\n"
      "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n"
      "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000\n");
  EXPECT_EQ(words_of(error),
            "NCCL error in: NCCLUtils.cpp:94, invalid usage (run with NCCL_DEBUG=WARN for "
            "details): Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000");
  EXPECT_EQ(fault_of(error), Fault::kConnection);
}

TEST(FaultOf, KnowsGloosArgumentChecks) {
  testing::run_ranks(
      2,
      [](Group& world) {
        const auto backend = world.backend();
        const auto sum = [&](std::vector<at::Tensor> tensors, c10d::ReduceOp op) {
          c10d::AllreduceOptions options;
          options.reduceOp = std::move(op);
          backend->allreduce(tensors, options)->wait();
        };
        const auto floats = at::ones({2});
        const auto shorts = at::ones({2}, at::kShort);
        EXPECT_EQ(fault_in([&] { sum({}, c10d::ReduceOp::SUM); }), Fault::kArguments);
        EXPECT_EQ(fault_in([&] { sum({floats}, c10d::ReduceOp::BAND); }), Fault::kArguments);
        EXPECT_EQ(fault_in([&] { sum({shorts}, c10d::ReduceOp::SUM); }), Fault::kArguments);
        std::vector<at::Tensor> tensors{floats};
        EXPECT_EQ(fault_in([&] { backend->c10d::Backend::allreduce_sparse(tensors, {}); }),
                  Fault::kArguments);
      },
      "gloo");
}

TEST(FaultOf, KnowsGloosTimeouts) {
  testing::run_ranks(
      2,
      [](Group& world) {
        if (world.rank() == 1) {
          world.store()->wait({"done"});
          return;
        }
        std::vector<at::Tensor> tensors{at::ones({2})};
        c10d::AllreduceOptions options;
        options.timeout = milliseconds(300);
        const auto work = world.backend()->allreduce(tensors, options);
        EXPECT_EQ(fault_in([&] { work->wait(milliseconds(10)); }), Fault::kLate) << "of a wait";
        EXPECT_EQ(fault_in([&] { work->wait(); }), Fault::kLate) << "of the work";
        world.store()->set("done", std::vector<std::uint8_t>{1});
      },
      "gloo");
}

TEST(FaultOf, KnowsAConnectionThatGlooLost) {
  testing::run_ranks(
      2,
      [](Group& world) {
        if (world.rank() == 0) {
          std::vector<at::Tensor> tensors{at::ones({2})};
          EXPECT_EQ(fault_in([&] { world.backend()->allreduce(tensors)->wait(); }),
                    Fault::kConnection);
        }
      },
      "gloo");
}

TEST(FaultOf, KnowsThatAStoreGaveUpWaiting) {
  c10d::HashStore alone;
  EXPECT_EQ(fault_in([&] { alone.wait({"nothing"}, milliseconds(50)); }), Fault::kLate);
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.port = 0;
  c10d::TCPStore server("127.0.0.1", options);
  EXPECT_EQ(fault_in([&] { server.wait({"nothing"}, milliseconds(50)); }), Fault::kLate);
  options.isServer = false;
  options.port = static_cast<std::uint16_t>(listen_on({"127.0.0.1", 0}).port);  // Closed again.
  options.timeout = milliseconds(300);
  EXPECT_EQ(fault_in([&] { const c10d::TCPStore nobody("127.0.0.1", options); }), Fault::kLate);
}

TEST(FaultOf, KnowsThatTheKernelGaveAConnectionUp) {
  const auto words = std::generic_category().message(ETIMEDOUT);
  EXPECT_EQ(fault_of(gloo::IoException("read [10.0.0.2]: " + words)), Fault::kSilent);
}

}  // namespace
}  // namespace lockstep::comm
