#include "lockstep/data/readers/image_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/memory.h"
#include "lockstep/data/decode/decode.h"
#include "lockstep/data/readers/bad_files.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kMostFileBytes = std::size_t{1} << 30;
constexpr std::size_t kBytesToKnowIt = 4096;

// Other errors are trouble of the process, the machine or a file server.
bool is_of_the_file(int error) {
  switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case EINTR:
    case EAGAIN:
    case ESTALE:
    case ETIMEDOUT:
    case ECONNREFUSED:
    case ECONNRESET:
    case ENOTCONN:
    case ESHUTDOWN:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
      return false;
    default:
      return true;
  }
}

[[noreturn]] void refuse_file(const std::string& what) {
  const int error = errno;
  if (is_of_the_file(error)) {
    throw_errno(what);
  }
  throw NotTheFile(what + ": " + std::generic_category().message(error) +
                   "; this is no fault of the file, look at the machine (ulimit -n, free memory, " +
                   "the file server)");
}

// Makes the content as long as `size`, or as the file has become.
void read_up_to(std::size_t size, int file, std::string& content) {
  std::size_t done = content.size();
  content.resize(size);
  while (done < size) {
    const ssize_t got = ::read(file, content.data() + done, size - done);
    if (got < 0 && errno != EINTR) {
      refuse_file("reading it");
    }
    if (got == 0) {  // It has become shorter.
      break;
    }
    done += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  content.resize(done);
}

}  // namespace

std::string read_image_file(const std::string& path) {
  // Opening a pipe would wait for somebody who writes.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) {
    refuse_file("opening it");
  }
  if (!S_ISREG(status.st_mode)) {
    throw IoError("it is a folder, pipe or device, expected a file");
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > kMostFileBytes) {
    throw IoError("it has " + size_text(size) + ", expected an image of at most " +
                  size_text(kMostFileBytes));
  }
  std::string content;
  read_up_to(std::min(size, kBytesToKnowIt), file.get(), content);
  if (image_format(std::as_bytes(std::span(content)))) {
    read_up_to(size, file.get(), content);
  }
  return content;
}

}  // namespace lockstep::data
