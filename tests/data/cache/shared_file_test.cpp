#include "lockstep/data/cache/shared_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/fd.h"
#include "tests/support/child.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

UniqueFd open_file(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
}

TEST(SharedFile, RoomIsReserved) {
  const test::TemporaryFolder folder;
  const UniqueFd file = open_file(folder.file("a"));
  EXPECT_EQ(allocate(file.get(), 0, 100'000), 0);
  EXPECT_EQ(allocate(file.get(), 100'000, 70 << 20), 0);  // More than one step.
  struct stat status{};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  EXPECT_EQ(status.st_size, 70 << 20);
  EXPECT_GE(status.st_blocks * 512, 70 << 20);
}

TEST(SharedFile, TooMuchIsRefusedBeforeAnyIsTaken) {
  const test::TemporaryFolder folder;
  const UniqueFd file = open_file(folder.file("a"));
  EXPECT_EQ(allocate(file.get(), 0, std::uint64_t{1} << 50), ENOSPC);
  struct stat status{};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  EXPECT_EQ(status.st_blocks, 0);
}

// From now on what takes longer than from one signal to the next ends with EINTR: whatever reserves
// more than 1 MiB. Real signals end it on some kernels only, so a filter of system calls does.
bool interrupt_long_steps() {
  constexpr std::uint32_t kMost = 1 << 20;
  std::array filter = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fallocate, 0, 3),
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[3])),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kMost, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINTR),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(SharedFile, RoomIsReservedAlthoughSignalsCome) {
  EXPECT_EQ(test::run_in_child([] {
              ::alarm(30);  // An end of attempts that are all as long as the first.
              const UniqueFd file(::memfd_create("room", MFD_CLOEXEC));
              if (!interrupt_long_steps() || ::posix_fallocate(file.get(), 0, 16 << 20) != EINTR) {
                return 100;
              }
              const int error = allocate(file.get(), 0, 16 << 20);
              struct stat status{};
              ::fstat(file.get(), &status);
              return error != 0 ? error : status.st_blocks * 512 < 16 << 20 ? 101 : 0;
            }),
            0);
}

TEST(SharedFile, WritesAtItsPlace) {
  const test::TemporaryFolder folder;
  const UniqueFd file = open_file(folder.file("a"));
  const std::vector<std::uint8_t> bytes = {'x', 'y', 'z'};
  EXPECT_TRUE(write_at(file.get(), 2, bytes));
  EXPECT_EQ(read_file(folder.file("a")), std::string("\0\0xyz", 5));
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  EXPECT_FALSE(write_at(full.get(), 0, bytes));
  EXPECT_EQ(errno, ENOSPC);
}

// One waits for the other; each takes the lock, reads, writes one more, and gives it back.
TEST(SharedFile, OneAtATimeGrowsIt) {
  const test::TemporaryFolder folder;
  const auto add_ones = [&] {
    for (int i = 0; i < 20; ++i) {
      const UniqueFd own = open_file(folder.file("a"));
      if (!lock_growing(own.get())) {
        return 1;
      }
      std::uint8_t count = 0;
      (void)!::pread(own.get(), &count, 1, 8);
      ++count;
      write_at(own.get(), 8, {&count, 1});
    }
    return 0;
  };
  const pid_t child = test::fork_child(add_ones);
  EXPECT_EQ(add_ones(), 0);
  EXPECT_EQ(test::wait_for(child), 0);
  EXPECT_EQ(read_file(folder.file("a")).back(), 40);
}

TEST(SharedFile, UsersShareALockOthersDoNotGet) {
  const test::TemporaryFolder folder;
  const UniqueFd one = open_file(folder.file("a"));
  const UniqueFd two = open_file(folder.file("a"));
  EXPECT_TRUE(lock_file(one.get(), LOCK_SH));
  EXPECT_TRUE(lock_file(two.get(), LOCK_SH));
  EXPECT_TRUE(lock_growing(two.get()));
  const UniqueFd three = open_file(folder.file("a"));
  EXPECT_NE(::flock(three.get(), LOCK_EX | LOCK_NB), 0);
}

TEST(SharedFile, KnowsFileSystemsOfSeveralHosts) {
  EXPECT_EQ(network_file_system(NFS_SUPER_MAGIC), "NFS");
  EXPECT_EQ(network_file_system(AFS_FS_MAGIC), "AFS");
  EXPECT_EQ(network_file_system(0x0bd00bd0), "Lustre");
  // f_type is signed on some machines.
  EXPECT_EQ(network_file_system(static_cast<std::uint64_t>(std::int32_t(CIFS_SUPER_MAGIC))),
            "CIFS");
  for (const std::uint64_t local :
       std::vector<std::uint64_t>{TMPFS_MAGIC, EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
                                  OVERLAYFS_SUPER_MAGIC, FUSE_SUPER_MAGIC}) {
    EXPECT_EQ(network_file_system(local), std::nullopt) << local;
  }
}

// Someone reserves room for three times as long as is waited for, or holds the lock and does
// nothing.
TEST(SharedFile, ALockIsWaitedForWhileTheFileGrows) {
  using std::chrono::milliseconds;
  constexpr milliseconds kTime{1000};
  for (const bool grows : {true, false}) {
    const test::TemporaryFolder folder;
    Pipe locked = make_pipe();
    Pipe done = make_pipe();
    const pid_t child = test::fork_child([&] {
      const UniqueFd file = open_file(folder.file("a"));
      const bool ok = lock_file(file.get(), LOCK_EX) && lock_growing(file.get());
      write_all(locked.write_end.get(), ".");
      for (std::uint64_t i = 0; grows && i < 30; ++i) {
        std::this_thread::sleep_for(kTime / 10);
        (void)allocate(file.get(), i << 20, (i + 1) << 20);
      }
      char end = 0;
      return ok && (grows || ::read(done.read_end.get(), &end, 1) == 1) ? 0 : 1;
    });
    char byte = 0;
    ASSERT_EQ(::read(locked.read_end.get(), &byte, 1), 1);
    const UniqueFd file = open_file(folder.file("a"));
    EXPECT_EQ(lock_growing(file.get(), kTime), grows);
    if (!grows) {
      EXPECT_EQ(errno, EWOULDBLOCK);
    }
    EXPECT_EQ(lock_file(file.get(), LOCK_SH, kTime), grows);
    if (!grows) {
      EXPECT_EQ(errno, EWOULDBLOCK);
    }
    write_all(done.write_end.get(), ".");
    EXPECT_EQ(test::wait_for(child), 0);
  }
}

}  // namespace
}  // namespace lockstep::data
