#include "lockstep/shm/reduce/reduction.h"

#include <gmock/gmock.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>

#include "lockstep/shm/reduce/float16.h"

namespace lockstep::shm {
namespace {

constexpr std::array kOps{ReduceOp::kSum, ReduceOp::kAvg,  ReduceOp::kProduct,
                          ReduceOp::kMin, ReduceOp::kMax,  ReduceOp::kBand,
                          ReduceOp::kBor, ReduceOp::kBxor, ReduceOp::kPremulSum};

template <class T>
T times(T a, T b) {
  return a * b;
}
// As torch multiplies: std::complex makes infinities of some NaNs.
template <class T>
std::complex<T> times(std::complex<T> a, std::complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// One element of all ranks, folded in the plainest way.
template <class T>
T reference(ReduceOp op, const std::vector<T>& values, const std::vector<double>& factors) {
  const auto scaled = [&](std::size_t i) {
    if constexpr (std::is_floating_point_v<T>) {
      return op == ReduceOp::kPremulSum ? static_cast<T>(values[i] * static_cast<T>(factors[i]))
                                        : values[i];
    } else {
      return values[i];
    }
  };
  T result = scaled(0);
  for (std::size_t i = 1; i < values.size(); ++i) {
    const T value = scaled(i);
    if constexpr (std::is_integral_v<T>) {
      using Wide = unsigned __int128;  // Wraps around where T does.
      switch (op) {
        case ReduceOp::kSum:
        case ReduceOp::kAvg:
          result = static_cast<T>(static_cast<Wide>(result) + static_cast<Wide>(value));
          break;
        case ReduceOp::kProduct:
          result = static_cast<T>(static_cast<Wide>(result) * static_cast<Wide>(value));
          break;
        case ReduceOp::kMin:
          result = std::min(result, value);
          break;
        case ReduceOp::kMax:
          result = std::max(result, value);
          break;
        case ReduceOp::kBand:
          result = static_cast<T>(result & value);
          break;
        case ReduceOp::kBor:
          result = static_cast<T>(result | value);
          break;
        default:
          result = static_cast<T>(result ^ value);
      }
    } else if (op == ReduceOp::kProduct) {
      result = times(result, value);
    } else if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
      if constexpr (std::is_floating_point_v<T>) {
        if (std::isnan(result) || std::isnan(value)) {
          result = std::numeric_limits<T>::quiet_NaN();
        } else {
          result = op == ReduceOp::kMin ? std::min(result, value) : std::max(result, value);
        }
      }
    } else {
      result = result + value;
    }
  }
  if (op == ReduceOp::kAvg) {
    if constexpr (std::is_integral_v<T>) {
      result = static_cast<T>(static_cast<__int128>(result) / static_cast<__int128>(values.size()));
    } else if constexpr (std::is_floating_point_v<T>) {
      result = result / static_cast<T>(values.size());
    } else {
      using Part = typename T::value_type;
      result = {result.real() / static_cast<Part>(values.size()),
                result.imag() / static_cast<Part>(values.size())};
    }
  }
  return result;
}

template <class T>
bool same(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a == b;
  } else if constexpr (std::is_floating_point_v<T>) {
    return a == b || (std::isnan(a) && std::isnan(b));
  } else {
    return same(a.real(), b.real()) && same(a.imag(), b.imag());
  }
}

// How a test sees elements of a type: in memory, and as numbers.
template <class T>
struct Plain {
  using Stored = T;
  using Number = T;
  static Number number(Stored value) { return value; }
  static Number rounded(Number value) { return value; }
  static Stored random(std::mt19937_64& random) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(random());
    } else if constexpr (std::is_floating_point_v<T>) {
      constexpr std::array kSpecial{
          T{0}, std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN(),
          std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::max()};
      if (random() % 16 == 0) {
        return kSpecial[random() % kSpecial.size()];
      }
      return std::ldexp(static_cast<T>(static_cast<int>(random() % 20001) - 10000),
                        static_cast<int>(random() % 20) - 10);
    } else {
      using Part = typename T::value_type;
      const auto part = [&] {
        return static_cast<Part>(static_cast<int>(random() % 2001) - 1000) / 8;
      };
      const auto real = part();
      return {real, part()};
    }
  }
};
template <float (*from)(std::uint16_t), std::uint16_t (*to)(float)>
struct Short {
  using Stored = std::uint16_t;
  using Number = float;
  static Number number(Stored value) { return from(value); }
  static Number rounded(Number value) { return from(to(value)); }
  static Stored random(std::mt19937_64& random) { return static_cast<Stored>(random()); }
};
using Half = Short<from_half, to_half>;
using BFloat16 = Short<from_bfloat16, to_bfloat16>;

template <class Element>
class Case {
 public:
  using Stored = typename Element::Stored;
  using Number = typename Element::Number;

  Case(DType dtype, ReduceOp op, std::size_t ranks, std::size_t count)
      : reduction_{dtype, op}, count_(count), values_(ranks, std::vector<Stored>(count)) {
    std::mt19937_64 random(count * 31 + ranks);
    for (auto& values : values_) {
      for (auto& value : values) {
        value = Element::random(random);
      }
      factors_.push_back(static_cast<double>(random() % 100) / 7 - 5);
    }
  }

  // Two outputs of their own.
  void check_apart() {
    std::vector<std::vector<Stored>> outputs(2, std::vector<Stored>(count_));
    run(values_, outputs);
    check(outputs);
  }
  // Every input is an output.
  void check_in_place() {
    auto both = values_;
    run(both, both);
    check(both);
  }

 private:
  using Lists = std::vector<std::vector<Stored>>;

  void run(const Lists& inputs, Lists& outputs) {
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    for (const auto& input : inputs) {
      in.push_back(reinterpret_cast<const std::byte*>(input.data()));
    }
    for (auto& output : outputs) {
      out.push_back(reinterpret_cast<std::byte*>(output.data()));
    }
    reduce(reduction_, in, out, count_, factors_);
  }

  void check(const Lists& outputs) {
    for (std::size_t i = 0; i < count_; ++i) {
      std::vector<Number> column;
      for (const auto& values : values_) {
        column.push_back(Element::number(values[i]));
      }
      const auto expected = Element::rounded(reference(reduction_.op, column, factors_));
      for (const auto& output : outputs) {
        ASSERT_TRUE(same(Element::number(output[i]), expected))
            << name_of(reduction_.op) << " of " << values_.size() << " "
            << name_of(reduction_.dtype) << ", element " << i << " of " << count_;
      }
    }
  }

  Reduction reduction_;
  std::size_t count_;
  Lists values_;
  std::vector<double> factors_;
};

// Around the block through which reduce() works, 4 KiB of folded elements.
template <class Element>
void check_all(DType dtype) {
  const std::size_t block = 4096 / sizeof(typename Element::Number);
  for (const auto op : kOps) {
    if (!can_reduce(dtype, op)) {
      continue;
    }
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, block - 1,
                                    block, block + 1, 2 * block, 2 * block + 3}) {
      ASSERT_NO_FATAL_FAILURE(Case<Element>(dtype, op, 3, count).check_apart());
      ASSERT_NO_FATAL_FAILURE(Case<Element>(dtype, op, 2, count).check_in_place());
    }
    for (const std::size_t ranks : {1, 8, 127, 128, 300}) {  // More than an 8-bit number can count.
      ASSERT_NO_FATAL_FAILURE(Case<Element>(dtype, op, ranks, 5).check_in_place());
    }
  }
}

struct Type {
  DType dtype;
  void (*check)(DType);
};
class ShmReduction : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(
    Types, ShmReduction,
    ::testing::Values(Type{DType::kUInt8, check_all<Plain<std::uint8_t>>},
                      Type{DType::kInt8, check_all<Plain<std::int8_t>>},
                      Type{DType::kUInt16, check_all<Plain<std::uint16_t>>},
                      Type{DType::kInt16, check_all<Plain<std::int16_t>>},
                      Type{DType::kUInt32, check_all<Plain<std::uint32_t>>},
                      Type{DType::kInt32, check_all<Plain<std::int32_t>>},
                      Type{DType::kUInt64, check_all<Plain<std::uint64_t>>},
                      Type{DType::kInt64, check_all<Plain<std::int64_t>>},
                      Type{DType::kHalf, check_all<Half>},
                      Type{DType::kBFloat16, check_all<BFloat16>},
                      Type{DType::kFloat, check_all<Plain<float>>},
                      Type{DType::kDouble, check_all<Plain<double>>},
                      Type{DType::kComplexFloat, check_all<Plain<std::complex<float>>>},
                      Type{DType::kComplexDouble, check_all<Plain<std::complex<double>>>}),
    [](const auto& type) { return std::string(name_of(type.param.dtype)); });

TEST_P(ShmReduction, IsWhatAPlainLoopComputes) { GetParam().check(GetParam().dtype); }

// What the loops above must agree on with a reader, in numbers.
template <class T>
T reduced(Reduction reduction, const std::vector<T>& values,
          const std::vector<double>& factors = {}) {
  std::vector<const std::byte*> inputs;
  for (const auto& value : values) {
    inputs.push_back(reinterpret_cast<const std::byte*>(&value));
  }
  T result{};
  std::byte* output = reinterpret_cast<std::byte*>(&result);
  reduce(reduction, inputs, {&output, 1}, 1, factors);
  return result;
}

TEST(ShmReduction, IntegersWrapAround) {
  EXPECT_EQ(reduced<std::int8_t>({DType::kInt8, ReduceOp::kSum}, {127, 1}), -128);
  EXPECT_EQ(reduced<std::uint16_t>({DType::kUInt16, ReduceOp::kProduct}, {65535, 65535}), 1);
  EXPECT_EQ(reduced<std::int64_t>({DType::kInt64, ReduceOp::kSum},
                                  {std::numeric_limits<std::int64_t>::max(), 1}),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(reduced<std::int32_t>({DType::kInt32, ReduceOp::kProduct},
                                  {std::numeric_limits<std::int32_t>::min(), -1}),
            std::numeric_limits<std::int32_t>::min());
}

TEST(ShmReduction, AveragesOfIntegersGoTowardsZero) {
  EXPECT_EQ(reduced<std::int32_t>({DType::kInt32, ReduceOp::kAvg}, {-3, -4}), -3);
  EXPECT_EQ(reduced<std::int32_t>({DType::kInt32, ReduceOp::kAvg}, {3, 4}), 3);
  EXPECT_EQ(reduced<std::int64_t>({DType::kInt64, ReduceOp::kAvg}, {-1, 0, 0}), 0);
  EXPECT_EQ(reduced<std::int8_t>({DType::kInt8, ReduceOp::kAvg}, {-128, 0}), -64);
}

TEST(ShmReduction, AveragesOverMoreRanksThanTheTypeCounts) {
  EXPECT_EQ(reduced({DType::kUInt8, ReduceOp::kAvg}, std::vector<std::uint8_t>(256, 1)), 0);
  std::vector<std::int8_t> values(200, 0);
  values[0] = -100;
  EXPECT_EQ(reduced({DType::kInt8, ReduceOp::kAvg}, values), 0);
  EXPECT_EQ(reduced({DType::kHalf, ReduceOp::kAvg}, std::vector<std::uint16_t>(300, to_half(3))),
            to_half(3));
}

TEST(ShmReduction, NaNWinsWhereverItIs) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto op : {ReduceOp::kMin, ReduceOp::kMax}) {
    for (std::size_t at = 0; at < 3; ++at) {
      std::vector<float> values{-1, 0, 1};
      values[at] = nan;
      EXPECT_TRUE(std::isnan(reduced({DType::kFloat, op}, values))) << name_of(op) << at;
      std::vector<std::uint16_t> halves{to_half(-1), to_half(0), to_half(1)};
      halves[at] = to_half(nan);
      EXPECT_TRUE(std::isnan(from_half(reduced({DType::kHalf, op}, halves)))) << name_of(op) << at;
    }
  }
}

TEST(ShmReduction, HalvesAreRoundedOnce) {
  // 2048 + 1 is no half: rounding after each addition would stay at 2048.
  EXPECT_EQ(from_half(reduced<std::uint16_t>({DType::kHalf, ReduceOp::kSum},
                                             {to_half(2048), to_half(1), to_half(1)})),
            2050);
  EXPECT_EQ(from_half(reduced<std::uint16_t>({DType::kHalf, ReduceOp::kAvg},
                                             {to_half(65504), to_half(65504)})),
            65504);
}

TEST(ShmReduction, ComplexNumbersAreMultipliedAsSuch) {
  using C = std::complex<double>;
  EXPECT_EQ(reduced<C>({DType::kComplexDouble, ReduceOp::kProduct}, {{1, 2}, {3, 4}, {0, 1}}),
            C(-10, -5));
}

TEST(ShmReduction, EachInputHasItsFactor) {
  EXPECT_EQ(reduced<double>({DType::kDouble, ReduceOp::kPremulSum}, {1, 10, 100}, {3, 2, 0.5}), 73);
  EXPECT_EQ(reduced<float>({DType::kFloat, ReduceOp::kPremulSum}, {8}, {0.25}), 2);
}

TEST(ShmReduction, AnyByteButZeroIsTrueAndTheResultIsZeroOrOne) {
  const auto fold = [](ReduceOp op, std::vector<std::uint8_t> bytes) {
    return int{reduced({DType::kBool, op}, bytes)};
  };
  for (const auto op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kBor}) {
    EXPECT_EQ(fold(op, {0, 0, 0}), 0) << name_of(op);
    EXPECT_EQ(fold(op, {0, 255, 0}), 1) << name_of(op);
    EXPECT_EQ(fold(op, {128, 128}), 1) << name_of(op);
    EXPECT_EQ(fold(op, {77}), 1) << name_of(op);
  }
  for (const auto op : {ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kBand}) {
    EXPECT_EQ(fold(op, {1, 2, 4}), 1) << name_of(op);
    EXPECT_EQ(fold(op, {1, 0, 4}), 0) << name_of(op);
    EXPECT_EQ(fold(op, {77}), 1) << name_of(op);
  }
  EXPECT_EQ(fold(ReduceOp::kBxor, {1, 2}), 0);
  EXPECT_EQ(fold(ReduceOp::kBxor, {1, 2, 255}), 1);
}

TEST(ShmReduction, CannotReduceWhatHasNoMeaning) {
  EXPECT_FALSE(can_reduce(DType::kBool, ReduceOp::kAvg));
  EXPECT_FALSE(can_reduce(DType::kInt32, ReduceOp::kPremulSum));
  EXPECT_FALSE(can_reduce(DType::kComplexFloat, ReduceOp::kPremulSum));
  for (const auto dtype :
       {DType::kHalf, DType::kBFloat16, DType::kFloat, DType::kDouble, DType::kComplexFloat}) {
    EXPECT_FALSE(can_reduce(dtype, ReduceOp::kBand)) << name_of(dtype);
    EXPECT_FALSE(can_reduce(dtype, ReduceOp::kBor)) << name_of(dtype);
    EXPECT_FALSE(can_reduce(dtype, ReduceOp::kBxor)) << name_of(dtype);
  }
  EXPECT_FALSE(can_reduce(DType::kComplexDouble, ReduceOp::kMin));
  EXPECT_FALSE(can_reduce(DType::kComplexFloat, ReduceOp::kMax));
  for (const auto op : kOps) {
    EXPECT_FALSE(can_reduce(DType::kOther, op)) << name_of(op);
  }
  EXPECT_FALSE(can_reduce(DType::kFloat, static_cast<ReduceOp>(99)));
}

TEST(ShmReduction, EveryTypeHasANameAndASize) {
  for (int dtype = 0; dtype <= static_cast<int>(DType::kOther); ++dtype) {
    EXPECT_STRNE(name_of(static_cast<DType>(dtype)), "an unknown dtype");
    EXPECT_GT(size_of(static_cast<DType>(dtype)), 0U);
  }
  EXPECT_EQ(size_of(DType::kComplexDouble), 16U);
  EXPECT_STREQ(name_of(static_cast<DType>(16)), "an unknown dtype");
  EXPECT_STREQ(name_of(static_cast<ReduceOp>(9)), "an unknown operation");
}

}  // namespace
}  // namespace lockstep::shm
