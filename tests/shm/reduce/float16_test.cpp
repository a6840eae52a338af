#include "lockstep/shm/reduce/float16.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

namespace lockstep::shm {
namespace {

// A number of 1 + exponent + mantissa bits, read as the standard says, in double precision.
struct Format {
  int exponent_bits;
  int mantissa_bits;

  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] int highest() const { return (1 << exponent_bits) - 1; }

  [[nodiscard]] double value_of(std::uint16_t bits) const {
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const int exponent = (bits >> mantissa_bits) & highest();
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == highest()) {
      return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                           : sign * std::numeric_limits<double>::infinity();
    }
    if (exponent == 0) {
      return sign * std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    }
    return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias() - mantissa_bits);
  }

  // The nearest number; of two that are as near, the one with an even last bit.
  [[nodiscard]] std::uint16_t nearest(double value) const {
    const int sign = std::signbit(value) ? 0x8000 : 0;
    const double magnitude = std::fabs(value);
    const int infinity = highest() << mantissa_bits;
    int low = 0;  // The last whose value is not above the magnitude.
    int high = infinity;
    while (low + 1 < high) {
      const int middle = (low + high) / 2;
      (value_of(static_cast<std::uint16_t>(middle)) <= magnitude ? low : high) = middle;
    }
    if (std::isinf(magnitude)) {
      return static_cast<std::uint16_t>(sign | infinity);
    }
    // Past the largest number the next power of two stands for infinity.
    const double below = value_of(static_cast<std::uint16_t>(low));
    const double above = high == infinity ? std::ldexp(1, highest() - bias())
                                          : value_of(static_cast<std::uint16_t>(high));
    const double to_below = magnitude - below;
    const double to_above = above - magnitude;
    const bool up = to_above < to_below || (to_above == to_below && low % 2 == 1);
    return static_cast<std::uint16_t>(sign | (up ? high : low));
  }
};
constexpr Format kHalf{5, 10};
constexpr Format kBFloat16{8, 7};

struct Conversion {
  const char* name;
  Format format;
  float (*from)(std::uint16_t);
  std::uint16_t (*to)(float);
};

class ShmFloat16 : public ::testing::TestWithParam<Conversion> {};
INSTANTIATE_TEST_SUITE_P(Types, ShmFloat16,
                         ::testing::Values(Conversion{"Half", kHalf, from_half, to_half},
                                           Conversion{"BFloat16", kBFloat16, from_bfloat16,
                                                      to_bfloat16}),
                         [](const auto& type) { return type.param.name; });

TEST_P(ShmFloat16, AllBitPatternsHaveTheirValue) {
  const auto& type = GetParam();
  for (int bits = 0; bits <= 0xffff; ++bits) {
    const double expected = type.format.value_of(static_cast<std::uint16_t>(bits));
    const double value = type.from(static_cast<std::uint16_t>(bits));
    ASSERT_TRUE(std::isnan(expected)
                    ? std::isnan(value)
                    : value == expected && std::signbit(value) == std::signbit(expected))
        << std::hex << bits << ": " << value << ", expected " << expected;
  }
}

TEST_P(ShmFloat16, AllNumbersComeBack) {
  const auto& type = GetParam();
  for (int bits = 0; bits <= 0xffff; ++bits) {
    const float value = type.from(static_cast<std::uint16_t>(bits));
    const auto back = type.to(value);
    ASSERT_TRUE(std::isnan(value) ? std::isnan(type.from(back)) : back == bits)
        << std::hex << bits << " became " << back;
  }
}

void expect_nearest(const Conversion& type, float value) {
  ASSERT_EQ(type.to(value), type.format.nearest(static_cast<double>(value)))
      << std::hexfloat << value;
}

// Between each number and the next: a tie, and the floats on both sides of it. The last ones tie
// between the largest number and infinity.
TEST_P(ShmFloat16, TiesGoToTheEvenNumber) {
  const auto& type = GetParam();
  const int infinity = type.format.highest() << type.format.mantissa_bits;
  for (int bits = 0; bits < infinity; ++bits) {
    const double low = type.format.value_of(static_cast<std::uint16_t>(bits));
    const double high = bits + 1 == infinity
                            ? std::ldexp(1, type.format.highest() - type.format.bias())
                            : type.format.value_of(static_cast<std::uint16_t>(bits + 1));
    const auto tie = static_cast<float>((low + high) / 2);
    for (const float value :
         {tie, std::nextafter(tie, 0.0F), std::nextafter(tie, std::numeric_limits<float>::max())}) {
      ASSERT_NO_FATAL_FAILURE(expect_nearest(type, value));
      ASSERT_NO_FATAL_FAILURE(expect_nearest(type, -value));
    }
  }
}

TEST_P(ShmFloat16, AnyFloatGoesToTheNearestNumber) {
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(value)) {
      ASSERT_NO_FATAL_FAILURE(expect_nearest(GetParam(), value));
    }
  }
}

TEST_P(ShmFloat16, TheEndsOfTheRangeAreRight) {
  using Limits = std::numeric_limits<float>;
  for (const float value : {0.0F, Limits::denorm_min(), Limits::min(), Limits::max(),
                            Limits::infinity(), 65504.0F, 65519.996F, 65520.0F, 0x1.0p-24F,
                            0x1.0p-25F, 0x1.000002p-25F, 0x1.ffcp-15F, 0x1.ffep-15F}) {
    ASSERT_NO_FATAL_FAILURE(expect_nearest(GetParam(), value));
    ASSERT_NO_FATAL_FAILURE(expect_nearest(GetParam(), -value));
  }
}

TEST_P(ShmFloat16, NaNStaysNaNWhateverItsBits) {
  const auto& type = GetParam();
  for (const std::uint32_t bits : {0x7f800001U, 0x7fc00000U, 0x7fffffffU, 0xff800001U, 0xffffffffU,
                                   0x7f80ffffU, 0xffffe000U}) {
    EXPECT_TRUE(std::isnan(type.from(type.to(std::bit_cast<float>(bits))))) << std::hex << bits;
  }
}

}  // namespace
}  // namespace lockstep::shm
