#include "lockstep/shm/segments/layout.h"

namespace lockstep::shm {
namespace {

std::size_t page_up(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

Layout::Layout(int ranks, std::size_t staging_size)
    : size(ranks), staging_bytes(staging_size), tables(page_up(sizeof(Control))) {
  const auto n = static_cast<std::size_t>(ranks);
  letter_boxes = page_up(tables + 4 * n * sizeof(Word));
  staging = page_up(letter_boxes + n * sizeof(LetterBox));
  arena = page_up(staging + 2 * staging_bytes);
}

}  // namespace lockstep::shm
