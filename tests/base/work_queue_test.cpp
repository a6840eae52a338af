#include "lockstep/base/work_queue.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "tests/support/soon.h"

namespace lockstep {
namespace {

using testing::soon;

TEST(WorkQueue, RunsEverythingBeforeTheAwaitedJobInOrder) {
  WorkQueue queue;
  std::vector<int> order;
  const auto first = queue.start([&] { order.push_back(1); });
  const auto second = queue.start([&] { order.push_back(2); });
  const auto third = queue.start([&] { order.push_back(3); });
  queue.wait(*third);
  queue.wait(*first);
  queue.wait(*second);
  EXPECT_THAT(order, ::testing::ElementsAre(1, 2, 3));
}

TEST(WorkQueue, AWaitRunsTheJobInItsOwnThread) {
  WorkQueue queue;
  std::thread::id ran_in;
  for (int i = 0; i < 100 && ran_in != std::this_thread::get_id();
       ++i) {  // Unless it was too slow.
    queue.wait(*queue.start([&] { ran_in = std::this_thread::get_id(); }));
  }
  EXPECT_EQ(ran_in, std::this_thread::get_id());
}

TEST(WorkQueue, WhatNobodyWaitsForIsRunAllTheSame) {
  WorkQueue queue;
  std::promise<void> ran;
  queue.start([&] { ran.set_value(); });
  EXPECT_EQ(ran.get_future().wait_until(soon().at()), std::future_status::ready);
}

// Its thread has learned to look seldom, but it still looks.
TEST(WorkQueue, WhatNobodyWaitsForIsRunAlsoAfterManyThatWereWaitedFor) {
  WorkQueue queue;
  for (int i = 0; i < 100; ++i) {
    queue.wait(*queue.start([] {}));
  }
  std::promise<void> ran;
  queue.start([&] { ran.set_value(); });
  EXPECT_EQ(ran.get_future().wait_until(soon().at()), std::future_status::ready);
}

TEST(WorkQueue, TellsWhenAJobIsDone) {
  WorkQueue queue;
  std::promise<bool> told;
  const auto job = queue.start([] { throw std::runtime_error("no"); });
  queue.when_done(*job, [&](const std::exception_ptr& error) { told.set_value(error != nullptr); });
  EXPECT_TRUE(told.get_future().get());
  EXPECT_TRUE(job->is_done());
  bool again = false;
  queue.when_done(*job, [&](const std::exception_ptr&) { again = true; });
  EXPECT_TRUE(again);
}

// As futures of c10d do: who waits for one waits for its callback.
std::future<void> future_of(WorkQueue& queue, WorkQueue::Job& job) {
  auto promise = std::make_shared<std::promise<void>>();
  queue.when_done(job, [promise](const std::exception_ptr&) { promise->set_value(); });
  return promise->get_future();
}

bool comes(const std::future<void>& future) {
  return future.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
}

TEST(WorkQueue, ACallbackMayWaitForTheCallbackOfAJobThatItStarts) {
  WorkQueue queue;
  std::function<bool(int)> nested = [&](int depth) {
    const auto job = queue.start([] {});
    const auto done = std::make_shared<std::promise<bool>>();
    queue.when_done(*job, [&nested, done, depth](const std::exception_ptr&) {
      done->set_value(depth == 0 || nested(depth - 1));
    });
    auto answer = done->get_future();
    return answer.wait_for(std::chrono::seconds(30)) == std::future_status::ready && answer.get();
  };
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(nested(3));
  }
}

TEST(WorkQueue, ACallbackMayWaitForAJobThatWasStartedBefore) {
  WorkQueue queue;
  std::promise<void> go;
  const auto first = queue.start([&] { go.get_future().wait(); }, WorkQueue::When::kAtOnce);
  const auto second = queue.start([] {});
  const auto later = std::make_shared<std::future<void>>(future_of(queue, *second));
  std::promise<bool> came;
  queue.when_done(*first, [&](const std::exception_ptr&) { came.set_value(comes(*later)); });
  go.set_value();
  EXPECT_TRUE(came.get_future().get());
}

TEST(WorkQueue, JobsGoOnWhileACallbackLasts) {
  WorkQueue queue;
  std::promise<void> run;
  std::promise<void> go;
  std::promise<void> in_callback;
  const auto first = queue.start([&] { run.get_future().wait(); }, WorkQueue::When::kAtOnce);
  queue.when_done(*first, [&](const std::exception_ptr&) {
    in_callback.set_value();
    go.get_future().wait();
  });
  run.set_value();
  in_callback.get_future().wait();
  for (int i = 0; i < 50; ++i) {
    const auto job = queue.start([] {});
    EXPECT_TRUE(comes(future_of(queue, *job))) << i;
  }
  go.set_value();
}

TEST(WorkQueue, AnErrorReachesEveryWait) {
  WorkQueue queue;
  const auto job = queue.start([] { throw std::runtime_error("no"); });
  EXPECT_THROW(queue.wait(*job), std::runtime_error);
  EXPECT_THROW(queue.wait(*job), std::runtime_error);
  EXPECT_NE(job->error(), nullptr);
}

TEST(WorkQueue, AShortWaitEndsBeforeTheJob) {
  WorkQueue queue;
  std::promise<void> go;
  const auto job = queue.start([&] { go.get_future().wait(); });
  EXPECT_FALSE(queue.wait_until(*job, Deadline::in(std::chrono::milliseconds(20))));
  go.set_value();
  EXPECT_TRUE(queue.wait_until(*job, soon()));
}

TEST(WorkQueue, ManyThreadsMayWaitForTheSameJobs) {
  WorkQueue queue;
  std::atomic<int> sum{0};
  std::vector<WorkQueue::JobPointer> jobs;
  for (int i = 0; i < 1000; ++i) {
    jobs.push_back(queue.start([&, i] { sum += i; }));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
        queue.wait(**job);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(sum, 499500);
}

TEST(WorkQueue, RunsWhatIsLeftWhenItEnds) {
  std::promise<void> go;
  std::atomic<int> told{0};
  {
    WorkQueue queue;
    const auto first = queue.start([&] { go.get_future().wait(); }, WorkQueue::When::kAtOnce);
    const auto second = queue.start([] {});
    queue.when_done(*second, [&](const std::exception_ptr&) { ++told; });
    go.set_value();
  }
  EXPECT_EQ(told, 1);
}

TEST(WorkQueue, AJobMayDropTheLastPointerToItsQueue) {
  auto queue = std::make_shared<WorkQueue>();
  std::promise<void> dropped;
  std::promise<void> go;
  auto* raw = queue.get();
  const auto job = raw->start([&go] { go.get_future().wait(); });
  raw->when_done(*job, [queue, &dropped](const std::exception_ptr&) mutable {
    queue.reset();
    dropped.set_value();
  });
  queue.reset();
  go.set_value();
  EXPECT_EQ(dropped.get_future().wait_until(soon().at()), std::future_status::ready);
}

TEST(WorkQueue, EndsInAForkThatHasNotItsThread) {
  auto queue = std::make_unique<WorkQueue>();
  queue->wait(*queue->start([] {}));
  const pid_t child = ::fork();
  if (child == 0) {
    queue.reset();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// True if the queue refuses the call.
bool is_refused_in_fork(const std::function<void()>& call) {
  try {
    call();
  } catch (const UsageError&) {
    return true;
  }
  return false;
}

TEST(WorkQueue, RefusesAForkAndNeverWaitsInIt) {
  WorkQueue queue;
  const auto done = queue.start([] {});
  queue.wait(*done);
  std::promise<void> go_on;
  std::promise<void> running;
  const auto job = queue.start(
      [&] {
        running.set_value();
        go_on.get_future().wait();
      },
      WorkQueue::When::kAtOnce);
  running.get_future().wait();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    queue.wait(*done);  // Nothing is left to do there.
    const bool refused = is_refused_in_fork([&] { queue.start([] {}); }) &&
                         is_refused_in_fork([&] { queue.wait(*job); }) &&
                         is_refused_in_fork([&] { queue.wait_until(*job, soon()); }) &&
                         is_refused_in_fork([&] { queue.when_done(*job, [](auto) {}); });
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  go_on.set_value();
  queue.wait(*job);
}

}  // namespace
}  // namespace lockstep
