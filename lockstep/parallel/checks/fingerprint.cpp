#include "lockstep/parallel/checks/fingerprint.h"

#include <array>
#include <bit>
#include <cstring>

namespace lockstep::parallel {
namespace {

constexpr std::size_t kLanes = 4;  // Independent, so that the multiplications overlap.
using Lanes = std::array<std::uint64_t, kLanes>;
// Odd: multiplying by them loses nothing.
constexpr std::uint64_t kFirst = 0x9e3779b97f4a7c15ULL;
constexpr std::uint64_t kSecond = 0xc2b2ae3d27d4eb4fULL;

void mix(std::uint64_t& lane, std::uint64_t word) {
  lane = std::rotl(lane + word * kSecond, 31) * kFirst;
}

// Lets every bit reach every other.
std::uint64_t spread(std::uint64_t value) {
  value = (value ^ value >> 33) * kSecond;
  value = (value ^ value >> 29) * kFirst;
  return value ^ value >> 32;
}

}  // namespace

std::uint64_t fingerprint(const std::byte* data, std::size_t bytes) {
  Lanes lanes{1, 2, 3, 4};
  Lanes words{};
  while (bytes >= sizeof words) {
    std::memcpy(words.data(), data, sizeof words);
    for (std::size_t i = 0; i < kLanes; ++i) {
      mix(lanes[i], words[i]);
    }
    data += sizeof words;
    bytes -= sizeof words;
  }
  words = {};
  if (bytes > 0) {
    std::memcpy(words.data(), data, bytes);
  }
  std::uint64_t result = bytes;
  for (std::size_t i = 0; i < kLanes; ++i) {
    mix(lanes[i], words[i]);
    mix(result, spread(lanes[i]));
  }
  return spread(result);
}

std::uint64_t fingerprint(const at::Tensor& tensor) {
  const auto values = tensor.detach().cpu().contiguous();
  return fingerprint(static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes());
}

}  // namespace lockstep::parallel
