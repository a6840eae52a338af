// Text in words of shared memory.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "lockstep/shm/segments/layout.h"

namespace lockstep::shm {

inline constexpr std::size_t kWordChars = sizeof(std::uint64_t);

template <std::size_t kWords>
void write_text(Word (&words)[kWords], const std::string& text) {
  for (std::size_t i = 0; i < kWords && i * kWordChars < text.size(); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i * kWordChars,
                std::min(kWordChars, text.size() - i * kWordChars));
    words[i].store(word, std::memory_order_relaxed);
  }
}

// Whatever a peer wrote there, it becomes a line of text.
template <std::size_t kWords>
std::string read_text(const Word (&words)[kWords]) {
  std::string text(kWords * kWordChars, '\0');
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::uint64_t word = words[i].load(std::memory_order_relaxed);
    std::memcpy(text.data() + i * kWordChars, &word, kWordChars);
  }
  text.resize(std::min(text.find('\0'), text.size()));
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return text;
}

}  // namespace lockstep::shm
