#include "lockstep/data/transforms/random.h"

#include <cmath>
#include <numbers>

namespace lockstep::data {
namespace {

struct Product {
  std::uint32_t high;
  std::uint32_t low;
};

Product multiply(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = std::uint64_t{a} * b;
  return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
}

std::uint32_t low_word(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high_word(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const Product first = multiply(0xD2511F53, counter[0]);
    const Product second = multiply(0xCD9E8D57, counter[2]);
    counter = {second.high ^ counter[1] ^ key[0], second.low, first.high ^ counter[3] ^ key[1],
               first.low};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

SampleRandom::SampleRandom(std::uint64_t seed, std::uint64_t epoch, std::uint64_t index)
    : key_{low_word(seed), high_word(seed)},
      counter_{0, low_word(epoch), low_word(index), high_word(index)} {}

SampleRandom SampleRandom::of_batch(std::uint64_t seed, std::uint64_t epoch,
                                    std::uint64_t first_index) {
  constexpr std::uint64_t kBatch = std::uint64_t{1} << 63;  // No index of a sample has this bit.
  return {seed, epoch, first_index | kBatch};
}

std::uint32_t SampleRandom::bits() {
  if (used_ == block_.size()) {
    block_ = philox(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

double SampleRandom::uniform() {
  const std::uint64_t high = bits();
  const std::uint64_t both = high << 32 | bits();
  return static_cast<double>(both >> 11) * 0x1p-53;
}

double SampleRandom::uniform(double low, double high) { return low + uniform() * (high - low); }

// Draws again in the last, incomplete run of `limit` numbers, else its first ones were likelier.
std::int64_t SampleRandom::below(std::int64_t limit) {
  const auto range = static_cast<std::uint64_t>(limit);
  const std::uint64_t incomplete = (0 - range) % range;  // 2^64 modulo range.
  while (true) {
    const std::uint64_t high = bits();
    const std::uint64_t number = high << 32 | bits();
    if (number >= incomplete) {
      return static_cast<std::int64_t>(number % range);
    }
  }
}

double SampleRandom::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

namespace {

// The logarithm of a number from Gamma(alpha, 1): the number itself may be too small for a double.
// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
double log_gamma_draw(SampleRandom& random, double alpha) {
  if (alpha < 1) {
    const double power = std::log(1 - random.uniform()) / alpha;
    return log_gamma_draw(random, alpha + 1) + power;
  }
  const double d = alpha - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = random.normal();
    const double v = 1 + c * x;
    if (v <= 0) {
      continue;
    }
    const double log_cube = 3 * std::log(v);
    if (std::log(1 - random.uniform()) < 0.5 * x * x + d * (1 - v * v * v + log_cube)) {
      return std::log(d) + log_cube;
    }
  }
}

}  // namespace

double SampleRandom::beta(double alpha) {
  const double first = log_gamma_draw(*this, alpha);
  const double second = log_gamma_draw(*this, alpha);
  return 1 / (1 + std::exp(second - first));
}

}  // namespace lockstep::data
