// A mapped range of a shared file that no fork of this process can change.
//
// A fork inherits no shared mapping. It finds private memory at the same addresses instead. This
// memory has the bytes of the file if this process keeps the file's descriptor, and zeros
// otherwise. So a fork may read and free what it inherited, and its writes stay private. A child
// made without fork() (a bare clone) has no memory there.
#pragma once

#include <cstddef>

namespace lockstep::shm {

// A multiple of every page size that Linux has: mappings begin and end at multiples of it.
inline constexpr std::size_t kGranule = std::size_t{64} << 10;
constexpr std::size_t granule_up(std::size_t bytes) {
  return (bytes + kGranule - 1) / kGranule * kGranule;
}

class Mapping {
 public:
  Mapping() = default;  // Maps nothing.
  // The descriptor must stay open as long as the mapping. Throws IoError if no address space is
  // left.
  static Mapping of_file(int fd, std::size_t offset, std::size_t bytes);
  // More of the file that `known` maps, from `skip` bytes after its begin; needs no descriptor.
  // `skip` is 0 or a multiple of the granule up to the size of `known`.
  static Mapping beyond(const Mapping& known, std::size_t skip, std::size_t bytes);
  // Like of_file(), for a descriptor that will be closed.
  static Mapping of_passing_file(int fd, std::size_t bytes);

  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  Mapping(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  void unmap();

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace lockstep::shm
