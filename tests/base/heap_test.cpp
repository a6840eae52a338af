#include "lockstep/base/heap.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>

namespace lockstep {
namespace {

constexpr std::size_t kBlock = std::size_t{20} << 20;

long faults_of_using_a_block() {
  rusage before{};
  ::getrusage(RUSAGE_SELF, &before);
  auto* block = static_cast<volatile char*>(std::malloc(kBlock));
  for (std::size_t i = 0; i < kBlock; i += 4096) {
    block[i] = 1;
  }
  std::free(const_cast<char*>(block));
  rusage after{};
  ::getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

TEST(KeepFreedMemory, SparesThePageFaultsOfTheNextUse) {
  const auto all = static_cast<long>(kBlock / 4096);
  EXPECT_GE(faults_of_using_a_block(), all / 600);  // Huge pages may make them fewer.
  ASSERT_TRUE(keep_freed_memory(std::size_t{100} << 20, Environment()));
  faults_of_using_a_block();
  EXPECT_LT(faults_of_using_a_block(), all / 600);
}

TEST(KeepFreedMemory, LeavesTheUsersChoiceAlone) {
  for (const char* name : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"}) {
    EXPECT_FALSE(keep_freed_memory(1, Environment({{name, "1"}}))) << name;
  }
}

TEST(KeepFreedMemoryOfMimalloc, TellsProgramsThatAreStarted) {
  ::unsetenv("MIMALLOC_PURGE_DELAY");
  keep_freed_memory_of_mimalloc();
  EXPECT_STREQ(std::getenv("MIMALLOC_PURGE_DELAY"), "10000");
}

TEST(KeepFreedMemoryOfMimalloc, LeavesTheUsersChoiceAlone) {
  ::setenv("MIMALLOC_PURGE_DELAY", "7", /*replace=*/1);
  keep_freed_memory_of_mimalloc();
  EXPECT_STREQ(std::getenv("MIMALLOC_PURGE_DELAY"), "7");
  ::unsetenv("MIMALLOC_PURGE_DELAY");
}

}  // namespace
}  // namespace lockstep
