#include "lockstep/base/process/fork_guard.h"

#include <sys/mman.h>

#include "lockstep/base/fd.h"

namespace lockstep {
namespace {

constexpr std::size_t kBytes = 4096;

}  // namespace

ForkGuard::ForkGuard() {
  void* page = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED || ::madvise(page, kBytes, MADV_WIPEONFORK) != 0) {
    throw_errno("a page that is wiped in a fork");
  }
  page_ = static_cast<volatile char*>(page);
  *page_ = 1;
}

ForkGuard::~ForkGuard() { ::munmap(const_cast<char*>(page_), kBytes); }

}  // namespace lockstep
