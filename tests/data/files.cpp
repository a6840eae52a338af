#include "tests/data/files.h"

#include <sys/mman.h>
#include <zlib.h>

#include <fstream>
#include <stdexcept>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::data {

void write_file(const std::string& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) {
    throw std::runtime_error("cannot write " + path);
  }
}

std::string gzip(std::string_view content) {
  z_stream stream{};
  if (::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  std::string packed(::deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int result = ::deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  if (result != Z_STREAM_END) {
    throw std::runtime_error("deflate");
  }
  return packed;
}

std::string idx_header(std::uint8_t type, const std::vector<std::uint32_t>& sizes) {
  std::string header{'\0', '\0', static_cast<char>(type), static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes) {
    for (const int shift : {24, 16, 8, 0}) {
      header.push_back(static_cast<char>(size >> shift));
    }
  }
  return header;
}

std::span<const std::byte> file_bytes(std::string_view content) {
  return std::as_bytes(std::span(content));
}

MemoryFile::MemoryFile(std::string_view content) : file_(::memfd_create("test", MFD_CLOEXEC)) {
  if (!file_ || !write_all(file_.get(), content)) {
    throw_errno("memfd_create");
  }
}

// Opening it anew starts at its beginning.
std::string MemoryFile::path() const { return "/proc/self/fd/" + std::to_string(file_.get()); }

NoMoreFiles::NoMoreFiles() {
  try {
    throw IoError("so that a sanitizer has seen one");
  } catch (const IoError& error) {
    (void)std::string(error.what());
  }
  ::getrlimit(RLIMIT_NOFILE, &before_);
  const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &none) != 0) {
    throw_errno("setrlimit");
  }
}

NoMoreFiles::~NoMoreFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }

}  // namespace lockstep::data
