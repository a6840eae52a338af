#include "lockstep/launch/node/worker_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace lockstep::launch {
namespace {

constexpr std::size_t kTailBytes = std::size_t{64} << 10;

}  // namespace

StreamEnd open_stream(const StreamRoute& route, CaptureTarget target, bool keep_tail,
                      std::optional<Capture>& capture) {
  StreamEnd stream;
  if (route.direct() && !keep_tail) {
    return stream;
  }
  if (route.straight_to_file()) {
    stream.end = create_log_file(target.file);
  } else if (!route.console && !keep_tail) {
    stream.end.reset(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  } else {
    Pipe pipe = make_pipe();
    target.file = route.file ? target.file : "";
    target.find_file = route.late ? target.find_file : nullptr;
    target.console = route.console ? target.console : nullptr;
    target.prefix = route.prefixed ? target.prefix : "";
    capture.emplace(std::move(pipe.read_end), std::move(target));
    stream.end = std::move(pipe.write_end);
  }
  stream.fd = stream.end.get();
  return stream;
}

std::string end_of_file(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const off_t size = file ? ::lseek(file.get(), 0, SEEK_END) : 0;
  const off_t start = std::max<off_t>(0, size - static_cast<off_t>(kTailBytes));
  std::string tail(static_cast<std::size_t>(std::max<off_t>(0, size - start)), '\0');
  const ssize_t got = tail.empty() ? 0 : ::pread(file.get(), tail.data(), tail.size(), start);
  tail.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  return tail;
}

}  // namespace lockstep::launch
