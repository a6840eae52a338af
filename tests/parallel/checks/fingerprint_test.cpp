#include "lockstep/parallel/checks/fingerprint.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <set>

namespace lockstep::parallel {
namespace {

TEST(Fingerprint, ChangesWithEveryBit) {
  std::vector<std::byte> bytes(77, std::byte{0x5a});
  std::set<std::uint64_t> seen{fingerprint(bytes.data(), bytes.size())};
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_TRUE(seen.insert(fingerprint(bytes.data(), bytes.size())).second) << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(Fingerprint, ChangesWithLengthAndOrder) {
  std::vector<std::byte> bytes(100);
  std::set<std::uint64_t> seen;
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    EXPECT_TRUE(seen.insert(fingerprint(bytes.data(), length)).second) << length;
  }
  const auto numbers = at::arange(64);
  EXPECT_NE(fingerprint(numbers), fingerprint(numbers.flip(0)));
}

TEST(Fingerprint, TellsTheSignOfZero) {
  EXPECT_NE(fingerprint(at::zeros({3})), fingerprint(-at::zeros({3})));
}

TEST(Fingerprint, LooksAtValuesNotAtStrides) {
  const auto square = at::arange(16).view({4, 4});
  EXPECT_EQ(fingerprint(square.t()), fingerprint(square.t().contiguous()));
}

}  // namespace
}  // namespace lockstep::parallel
