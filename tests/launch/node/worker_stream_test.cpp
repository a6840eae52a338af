#include "lockstep/launch/node/worker_stream.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/fd.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::launch {
namespace {

class WorkerStream : public ::testing::Test {
 protected:
  StreamEnd open(const StreamRoute& route, bool keep_tail) {
    CaptureTarget target;
    target.file = folder_.file("log");
    return open_stream(route, target, keep_tail, capture_);
  }

  test::TemporaryFolder folder_;
  std::optional<Capture> capture_;
};

TEST_F(WorkerStream, OfADirectRouteIsTheLaunchersOwn) {
  EXPECT_EQ(open({.console = true}, /*keep_tail=*/false).fd, -1);
  EXPECT_FALSE(capture_);
}

TEST_F(WorkerStream, GoesStraightToItsFileUnlessSomebodyWatches) {
  const auto stream = open({.file = true}, /*keep_tail=*/true);
  ASSERT_TRUE(write_all(stream.fd, "hello"));
  EXPECT_EQ(end_of_file(folder_.file("log")), "hello");
  EXPECT_FALSE(capture_);
}

TEST_F(WorkerStream, IsCapturedIfItsEndIsWanted) {
  const auto stream = open({.console = true}, /*keep_tail=*/true);
  ASSERT_TRUE(capture_);
  ASSERT_TRUE(write_all(stream.fd, "hello"));
  EXPECT_TRUE(capture_->read_some());
  EXPECT_EQ(capture_->tail(), "hello");
}

TEST_F(WorkerStream, ThatNobodyWantsIsThrownAway) {
  const auto stream = open({}, /*keep_tail=*/false);
  EXPECT_TRUE(write_all(stream.fd, "hello"));
  EXPECT_FALSE(capture_);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("log")));
}

TEST_F(WorkerStream, EndOfFileIsTheLast64KiB) {
  const auto path = folder_.file("long");
  std::ofstream(path) << std::string(100'000, 'a') << std::string(65'536, 'b');
  EXPECT_EQ(end_of_file(path), std::string(65'536, 'b'));
  EXPECT_EQ(end_of_file(folder_.file("missing")), "");
}

}  // namespace
}  // namespace lockstep::launch
