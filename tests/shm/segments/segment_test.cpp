#include "lockstep/shm/segments/segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"
#include "lockstep/base/sockets/unix_socket.h"

namespace lockstep::shm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

UniqueFd duplicate(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

std::size_t pages_of(const Segment& segment) {
  struct stat info{};
  ::fstat(segment.fd(), &info);
  return static_cast<std::size_t>(info.st_blocks) * 512 / 4096;
}

std::size_t address_space() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

UniqueFd memfd(std::size_t bytes, unsigned seals) {
  UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}
constexpr unsigned kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

TEST(ShmSegment, TwoMappingsShowTheSameBytes) {
  const Segment segment = Segment::create(kMebibyte);
  const Segment other = Segment::adopt(duplicate(segment.fd()), kMebibyte, "rank 1");
  ASSERT_NE(segment.data(), other.data());
  segment.data()[kMebibyte - 1] = std::byte{7};
  EXPECT_EQ(other.data()[kMebibyte - 1], std::byte{7});
  EXPECT_EQ(other.bytes(), kMebibyte);
}

TEST(ShmSegment, AddressSpaceAloneTakesNoMemory) {
  Segment segment = Segment::create(64 * kMebibyte);
  segment.extend(128 * kMebibyte);
  EXPECT_EQ(pages_of(segment), 0U);
}

// One group more costs its first pieces, whatever the machine has.
TEST(ShmSegment, TakesNoMoreAddressSpaceThanIsMapped) {
  const std::size_t before = address_space();
  const Segment segment = Segment::create(kMebibyte);
  EXPECT_GE(address_space(), before + kMebibyte);
  EXPECT_LT(address_space(), before + 4 * kMebibyte);
  EXPECT_GT(segment.capacity(), std::size_t{1} << 40);
}

TEST(ShmSegment, PiecesShowTheSameBytesToAPeerThatHasNoDescriptor) {
  Segment segment = Segment::create(kMebibyte);
  Segment peers = Segment::adopt(duplicate(segment.fd()), kMebibyte, "rank 1");
  for (const std::size_t end : {3 * kMebibyte, 3 * kMebibyte + kGranule, 9 * kMebibyte}) {
    const std::size_t begin = segment.bytes();
    segment.extend(end);
    peers.extend(end);
    *segment.at(begin, 1) = std::byte{5};
    *segment.at(end - 1, 1) = std::byte{7};
    EXPECT_EQ(*peers.at(begin, 1), std::byte{5}) << end;
    EXPECT_EQ(*peers.at(end - 1, 1), std::byte{7}) << end;
    EXPECT_EQ(peers.bytes(), end);
  }
  EXPECT_EQ(peers.pieces(), 4U);
  EXPECT_EQ(peers.fd(), -1);
}

TEST(ShmSegment, TheFirstPieceOfAPeerGrowsWhereItBegins) {
  Segment segment = Segment::create(4 * kMebibyte);
  segment.data()[0] = std::byte{1};
  *segment.at(4 * kMebibyte - 1, 1) = std::byte{2};
  Segment peers = Segment::adopt(duplicate(segment.fd()), 4096, "rank 1");
  peers.extend_first(4 * kMebibyte);
  EXPECT_EQ(peers.data()[0], std::byte{1});
  EXPECT_EQ(peers.data()[4 * kMebibyte - 1], std::byte{2});
  EXPECT_EQ(peers.pieces(), 1U);
}

TEST(ShmSegment, AtIsNullOutsideAndOverTheEndOfAPiece) {
  Segment segment = Segment::create(kMebibyte);
  segment.extend(2 * kMebibyte);
  EXPECT_EQ(segment.at(0, kMebibyte), segment.data());
  EXPECT_NE(segment.at(kMebibyte, kMebibyte), nullptr);
  EXPECT_EQ(segment.at(0, kMebibyte + 1), nullptr);
  EXPECT_EQ(segment.at(kMebibyte - 1, 2), nullptr);
  EXPECT_EQ(segment.at(2 * kMebibyte, 0), nullptr);
  EXPECT_EQ(segment.at(~std::size_t{0}, 1), nullptr);
  EXPECT_EQ(segment.at(kMebibyte, ~std::size_t{0}), nullptr);
}

TEST(ShmSegment, OffsetOfFindsWhatAtGivesInEveryPiece) {
  Segment segment = Segment::create(kMebibyte);
  segment.extend(2 * kMebibyte);
  for (const std::size_t offset : {std::size_t{0}, kMebibyte - 1, kMebibyte, 2 * kMebibyte - 1}) {
    EXPECT_EQ(segment.offset_of(segment.at(offset, 1), 1), offset);
    EXPECT_EQ(segment.offset_of(segment.at(offset, 1), kMebibyte + 1), std::nullopt);
  }
  EXPECT_EQ(segment.offset_of(&segment, 1), std::nullopt);
  EXPECT_EQ(segment.offset_of(nullptr, 0), std::nullopt);
}

TEST(ShmSegment, HasSoManyPiecesAndNoMore) {
  Segment segment = Segment::create(kGranule);
  while (segment.pieces() < kMaxPieces) {
    segment.extend(segment.bytes() + kGranule);
  }
  EXPECT_THROW(segment.extend(segment.bytes() + kGranule), IoError);
  EXPECT_NE(segment.at((kMaxPieces - 1) * kGranule, kGranule), nullptr);
}

TEST(ShmSegment, ALimitOfFileSizesIsKept) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = 4 * kMebibyte, .rlim_max = 4 * kMebibyte};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    Segment segment = Segment::create(kMebibyte);
    bool refused = false;
    try {
      segment.extend(5 * kMebibyte);
    } catch (const IoError&) {
      refused = true;
    }
    ::_exit(refused && segment.capacity() == 4 * kMebibyte ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(ShmSegment, NoPeerCanShrinkOrGrowIt) {
  const Segment segment = Segment::create(kMebibyte);
  const UniqueFd peers = duplicate(segment.fd());
  for (const std::size_t size : {std::size_t{0}, kMebibyte - 1, kMebibyte + 1, 2 * kMebibyte}) {
    errno = 0;
    EXPECT_EQ(::ftruncate(peers.get(), static_cast<off_t>(size)), -1) << size;
    EXPECT_EQ(errno, EPERM) << size;
  }
}

TEST(ShmSegment, NoPeerCanAddASeal) {
  const Segment segment = Segment::create(kMebibyte);
  EXPECT_EQ(::fcntl(segment.fd(), F_ADD_SEALS, F_SEAL_WRITE), -1);
}

TEST(ShmSegment, HasNoNameThatCouldBeLeftBehind) {
  const Segment segment = Segment::create(kMebibyte);
  struct stat info{};
  ASSERT_EQ(::fstat(segment.fd(), &info), 0);
  EXPECT_EQ(info.st_nlink, 0U);
}

TEST(ShmSegment, AProgramThatIsStartedDoesNotInheritIt) {
  const Segment segment = Segment::create(kMebibyte);
  EXPECT_NE(::fcntl(segment.fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(ShmSegment, MovingLeavesOneOwner) {
  Segment first = Segment::create(kMebibyte);
  std::byte* data = first.data();
  Segment second = std::move(first);
  EXPECT_EQ(second.data(), data);
  Segment third = Segment::create(4096);
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.bytes(), kMebibyte);
  third.data()[0] = std::byte{1};  // Still mapped.
}

TEST(ShmSegment, CreatingOneThatIsLargerThanAnyAddressSpaceIsAnIoError) {
  EXPECT_THROW(Segment::create(std::size_t{1} << 62), IoError);
  EXPECT_THROW(Segment::create(~std::size_t{0}), IoError);
}

TEST(ShmSegmentAdopt, RefusesAPlainFile) {
  std::string path = (std::filesystem::temp_directory_path() / "lockstep-XXXXXX").string();
  UniqueFd file(::mkstemp(path.data()));
  ::unlink(path.c_str());
  ASSERT_EQ(::ftruncate(file.get(), kMebibyte), 0);
  EXPECT_THAT([&] { Segment::adopt(std::move(file), kMebibyte, "rank 3"); },
              ThrowsMessage<PeerError>(AllOf(StartsWith("rank 3"), HasSubstr("no sealed memory"))));
}

TEST(ShmSegmentAdopt, RefusesAPipe) {
  EXPECT_THROW(Segment::adopt(std::move(make_pipe().read_end), 1, "rank 3"), PeerError);
}

TEST(ShmSegmentAdopt, RefusesAMemfdThatLacksASeal) {
  for (const unsigned missing : {unsigned{F_SEAL_SHRINK}, unsigned{F_SEAL_GROW}, kAllSeals}) {
    EXPECT_THAT(
        [&] { Segment::adopt(memfd(kMebibyte, kAllSeals & ~missing), kMebibyte, "rank 3"); },
        ThrowsMessage<PeerError>(HasSubstr("no sealed memory")))
        << missing;
  }
}

TEST(ShmSegmentAdopt, RefusesOneThatIsTooSmallAndSaysBothSizes) {
  EXPECT_THAT([] { Segment::adopt(memfd(4096, kAllSeals), 8192, "rank 3"); },
              ThrowsMessage<PeerError>(
                  AllOf(StartsWith("rank 3"), HasSubstr("4.0 KiB"), HasSubstr("8.0 KiB"))));
}

TEST(ShmSegmentAdopt, RefusesOneThatCannotBeWritten) {
  EXPECT_THAT(
      [] { Segment::adopt(memfd(kMebibyte, kAllSeals | F_SEAL_WRITE), kMebibyte, "rank 3"); },
      ThrowsMessage<PeerError>(StartsWith("rank 3")));
}

TEST(ShmSegmentAdopt, RefusesOneThatWasOpenedToBeRead) {
  const UniqueFd fd = memfd(kMebibyte, kAllSeals);
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  UniqueFd readable(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(readable);
  EXPECT_THAT([&] { Segment::adopt(std::move(readable), kMebibyte, "rank 3"); },
              ThrowsMessage<PeerError>(StartsWith("rank 3")));
}

TEST(ShmSegmentBack, TakesThePagesAndZeroesThem) {
  const Segment segment = Segment::create(kMebibyte);
  segment.back(4096, 3 * 4096, "test");
  EXPECT_EQ(pages_of(segment), 3U);
  EXPECT_TRUE(std::all_of(segment.data(), segment.data() + kMebibyte,
                          [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(ShmSegmentBack, KeepsWhatIsThere) {
  const Segment segment = Segment::create(kMebibyte);
  segment.back(0, 4096, "test");
  segment.data()[5] = std::byte{5};
  segment.back(0, kMebibyte, "test");
  EXPECT_EQ(segment.data()[5], std::byte{5});
}

TEST(ShmSegmentBack, MoreThanThereIsIsAnIoErrorThatNamesNeedAndLimit) {
  const std::size_t absurd = 2 * free_memory().bytes;
  const Segment segment = Segment::create(kMebibyte);  // Need not be mapped.
  EXPECT_THAT([&] { segment.back(0, absurd, "rank 2 of 4"); },
              ThrowsMessage<IoError>(AllOf(StartsWith("rank 2 of 4: "),
                                           HasSubstr(size_text(absurd)), HasSubstr("are free in "),
                                           HasSubstr(free_memory().limited_by))));
  EXPECT_EQ(pages_of(segment), 0U);
}

TEST(ShmSegmentBack, PastItsEndIsAnIoError) {
  const Segment segment = Segment::create(kMebibyte);
  EXPECT_THROW(segment.back(segment.capacity(), 4096, "test"), IoError);
}

TEST(ShmSegmentUnback, GivesThePagesBackAndReadsZeros) {
  const Segment segment = Segment::create(kMebibyte);
  segment.back(0, kMebibyte, "test");
  std::fill(segment.data(), segment.data() + kMebibyte, std::byte{9});
  segment.unback(4096, 8192);
  EXPECT_EQ(pages_of(segment), kMebibyte / 4096 - 2);
  EXPECT_EQ(segment.data()[4095], std::byte{9});
  EXPECT_EQ(segment.data()[4096], std::byte{0});
  EXPECT_EQ(segment.data()[4096 + 8191], std::byte{0});
  EXPECT_EQ(segment.data()[4096 + 8192], std::byte{9});
  EXPECT_EQ(segment.bytes(), kMebibyte);
}

// What a rank sent must arrive also if it has ended, in whatever piece it lies.
TEST(ShmSegment, PiecesThatWereNotMappedYetOutliveTheProcessThatMadeThem) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()), 0);
  const UniqueFd mine(ends[0]);
  UniqueFd theirs(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    Segment segment = Segment::create(kMebibyte);
    segment.extend(3 * kMebibyte);
    *segment.at(2 * kMebibyte, 1) = std::byte{42};
    ::_exit(send_with_fd(theirs.get(), "segment", segment.fd()) == Sent::kSent ? 0 : 1);
  }
  theirs.reset();
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  auto parcel = receive_with_fd(mine.get(), 100);
  ASSERT_TRUE(parcel);
  Segment segment = Segment::adopt(std::move(parcel->fd), kMebibyte, "rank 1");
  segment.extend(3 * kMebibyte);
  EXPECT_EQ(*segment.at(2 * kMebibyte, 1), std::byte{42});
}

}  // namespace
}  // namespace lockstep::shm
