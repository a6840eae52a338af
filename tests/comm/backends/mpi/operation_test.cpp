#include "lockstep/comm/backends/mpi/operation.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::comm {
namespace {

TEST(MpiOperation, FinishesOnceAndCallsBackThen) {
  int finished = 0;
  int called = 0;
  MpiOperation operation(nullptr, {.finish = [&](const MPI_Status&) { ++finished; }});
  operation.when_done([&](const std::exception_ptr& error) { called += error ? 100 : 1; });
  EXPECT_FALSE(operation.is_done());
  operation.end(nullptr);
  operation.end(std::make_exception_ptr(PeerError("too late to matter")));
  operation.when_done([&](const std::exception_ptr&) { ++called; });
  EXPECT_TRUE(operation.is_done());
  EXPECT_EQ(operation.error(), nullptr);
  EXPECT_EQ(finished, 1);
  EXPECT_EQ(called, 2);
}

TEST(MpiOperation, WhatFinishingThrowsIsItsError) {
  MpiOperation operation(nullptr,
                         {.finish = [](const MPI_Status&) { throw UsageError("too short"); }});
  operation.end(nullptr);
  EXPECT_THROW(std::rethrow_exception(operation.error()), UsageError);
}

TEST(MpiOperation, AFailedOneFinishesNothing) {
  bool finished = false;
  MpiOperation operation(nullptr, {.finish = [&](const MPI_Status&) { finished = true; }});
  operation.end(std::make_exception_ptr(PeerError("late")));
  EXPECT_THROW(std::rethrow_exception(operation.error()), PeerError);
  EXPECT_FALSE(finished);
}

}  // namespace
}  // namespace lockstep::comm
