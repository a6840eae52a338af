// Random numbers of one sample in one epoch.
//
// They follow from seed, epoch and index alone, so augmentation does not depend on the number of
// workers or ranks, on prefetching, or on what other samples drew. The generator is Philox4x32-10
// (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): a hash of a counter, so a
// sample's numbers cost nothing to find.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep::data {

// The hash itself: 128 bits of a counter to 128 random bits.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

class SampleRandom {
 public:
  // Epochs count modulo 2^32.
  SampleRandom(std::uint64_t seed, std::uint64_t epoch, std::uint64_t index);

  // For a batch that begins with this sample; the numbers differ from the sample's own.
  static SampleRandom of_batch(std::uint64_t seed, std::uint64_t epoch, std::uint64_t first_index);

  std::uint32_t bits();
  double uniform();                         // In [0, 1), in steps of 2^-53.
  double uniform(double low, double high);  // In [low, high).
  std::int64_t below(std::int64_t limit);   // In [0, limit), all equally likely; limit > 0.
  double normal();                          // Mean 0, standard deviation 1.
  double beta(double alpha);                // In [0, 1], from Beta(alpha, alpha); alpha > 0.

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  unsigned used_ = 4;  // Numbers of the block that were given out.
};

}  // namespace lockstep::data
