#include "lockstep/shm/reduce/fold_avx2.h"

#include <gmock/gmock.h>

#include <cstring>
#include <random>

#include "lockstep/shm/reduce/fold_loops.h"

namespace lockstep::shm {
namespace {

// Any bits: NaNs, infinities and subnormal numbers among them.
std::vector<std::byte> noise(unsigned seed, std::size_t bytes) {
  std::mt19937 random(seed);
  std::vector<std::byte> data(bytes);
  for (auto& byte : data) {
    byte = static_cast<std::byte>(random());
  }
  return data;
}

// The result of two NaNs may have the bits of either.
template <class T>
bool alike(const std::byte* a, const std::byte* b, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += sizeof(T)) {
    T x;
    T y;
    std::memcpy(&x, a + at, sizeof x);
    std::memcpy(&y, b + at, sizeof y);
    const bool both_nan = x != x && y != y;
    if (std::memcmp(&x, &y, sizeof x) != 0 && !both_nan) {
      return false;
    }
  }
  return true;
}

bool alike(DType dtype, const std::byte* a, const std::byte* b) {
  const std::size_t size = size_of(dtype);
  if (dtype == DType::kFloat || dtype == DType::kComplexFloat) {
    return alike<float>(a, b, size);
  }
  if (dtype == DType::kDouble || dtype == DType::kComplexDouble) {
    return alike<double>(a, b, size);
  }
  if (dtype == DType::kHalf) {
    std::uint16_t x = 0;
    std::uint16_t y = 0;
    std::memcpy(&x, a, size);
    std::memcpy(&y, b, size);
    const bool both_nan = (x & 0x7fff) > 0x7c00 && (y & 0x7fff) > 0x7c00;  // Whatever their signs.
    return x == y || both_nan;
  }
  return std::memcmp(a, b, size) == 0;
}

TEST(FoldWide, HasTheBitsOfTheLoopsForEveryProcessor) {
  if (!can_fold_avx2()) {
    GTEST_SKIP() << "this processor has no wider vectors";
  }
  constexpr std::size_t kCount = 2051;
  for (int d = 0; d < static_cast<int>(DType::kOther); ++d) {
    for (int o = 0; o <= static_cast<int>(ReduceOp::kPremulSum); ++o) {
      const Reduction reduction{static_cast<DType>(d), static_cast<ReduceOp>(o)};
      if (!can_reduce(reduction.dtype, reduction.op)) {
        continue;
      }
      const std::size_t size = size_of(reduction.dtype);
      std::vector<std::vector<std::byte>> inputs;
      std::vector<const std::byte*> pointers;
      for (unsigned seed = 0; seed < 3; ++seed) {
        inputs.push_back(noise(seed, kCount * size));
      }
      for (const auto& input : inputs) {
        pointers.push_back(input.data());
      }
      const std::vector<double> factors{0.1, 3, -7};
      const std::size_t divisor = reduction.op == ReduceOp::kAvg ? 3 : 1;
      std::vector<std::byte> plain(kCount * size);
      std::vector<std::byte> wide(kCount * size);
      std::byte* to_plain = plain.data();
      std::byte* to_wide = wide.data();
      fold_any(reduction, {pointers, {&to_plain, 1}, kCount, factors, divisor});
      fold_avx2(reduction, {pointers, {&to_wide, 1}, kCount, factors, divisor});
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_TRUE(alike(reduction.dtype, to_plain + i * size, to_wide + i * size))
            << name_of(reduction.dtype) << " " << name_of(reduction.op) << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::shm
