#include "lockstep/data/readers/byte_reader.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 16;

bool starts_as_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

}  // namespace

// zlib's stream. A gzip file is one or more members, one after another.
class ByteReader::Inflater {
 public:
  Inflater() {
    constexpr int kGzipOnly = 15 + 16;
    if (::inflateInit2(&stream_, kGzipOnly) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~Inflater() { ::inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Moves both spans forward, by what was taken and what was filled. Neither may be empty. Returns
  // zlib's result: Z_OK or Z_STREAM_END, at the end of a member, unless the data are damaged.
  int step(std::span<std::byte>& input, std::span<std::byte>& out) {
    if (std::exchange(between_members_, false)) {
      ::inflateReset(&stream_);
    }
    const std::size_t room = std::min(out.size(), std::size_t{std::numeric_limits<uInt>::max()});
    stream_.next_in = reinterpret_cast<Bytef*>(input.data());
    stream_.avail_in = static_cast<uInt>(input.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(room);
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) {
      throw std::bad_alloc();
    }
    between_members_ = result == Z_STREAM_END;
    input = input.last(stream_.avail_in);
    out = out.subspan(room - stream_.avail_out);
    return result;
  }

  [[nodiscard]] bool between_members() const { return between_members_; }
  [[nodiscard]] std::string complaint(int result) const {
    return stream_.msg != nullptr ? stream_.msg : ::zError(result);
  }

 private:
  z_stream stream_{};
  bool between_members_ = false;
};

ByteReader::ByteReader(std::string path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)),
      block_(std::make_unique<std::byte[]>(kBlockBytes)) {
  if (!file_) {
    throw_errno("opening '" + path_ + "'");
  }
  refill();
  if (starts_as_gzip(input_)) {
    inflater_ = std::make_unique<Inflater>();
  }
}

ByteReader::~ByteReader() = default;

// False at the end of the file. A short read of a pipe is continued, so that the first block shows
// what the file is.
bool ByteReader::refill() {
  std::size_t have = 0;
  while (have < kBlockBytes) {
    const ssize_t got = ::read(file_.get(), block_.get() + have, kBlockBytes - have);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      throw_errno("reading '" + path_ + "'");
    }
    if (got == 0) {
      break;
    }
    have += static_cast<std::size_t>(got);
  }
  input_ = {block_.get(), have};
  input_offset_ += have;
  return have > 0;
}

std::size_t ByteReader::read(std::span<std::byte> out) {
  const std::size_t got = inflater_ ? unpack(out) : copy(out);
  offset_ += got;
  return got;
}

std::size_t ByteReader::copy(std::span<std::byte> out) {
  auto rest = out;
  while (!rest.empty() && (!input_.empty() || refill())) {
    const std::size_t bytes = std::min(rest.size(), input_.size());
    std::memcpy(rest.data(), input_.data(), bytes);
    input_ = input_.subspan(bytes);
    rest = rest.subspan(bytes);
  }
  return out.size() - rest.size();
}

std::size_t ByteReader::unpack(std::span<std::byte> out) {
  auto rest = out;
  while (!rest.empty()) {
    if (input_.empty() && !refill()) {
      if (!inflater_->between_members()) {
        refuse("the gzip data are cut off at byte " + std::to_string(input_offset_) +
               " of the file, expected more");
      }
      break;
    }
    const int result = inflater_->step(input_, rest);
    if (result != Z_OK && result != Z_STREAM_END) {
      refuse("the gzip data are damaged before byte " +
             std::to_string(input_offset_ - input_.size()) + " of the file (" +
             inflater_->complaint(result) + ")");
    }
  }
  return out.size() - rest.size();
}

void ByteReader::refuse(const std::string& what) const {
  throw IoError("reading '" + path_ + "': " + what + "; get the file again");
}

std::string read_text(const std::string& path) {
  ByteReader file(path);
  std::string text;
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  for (std::size_t got = kBlock; got == kBlock;) {
    const std::size_t have = text.size();
    text.resize(have + kBlock);
    got = file.read(std::as_writable_bytes(std::span(text).subspan(have)));
    text.resize(have + got);
  }
  return text;
}

}  // namespace lockstep::data
