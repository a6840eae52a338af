#include "lockstep/shm/peers/call.h"

#include <array>
#include <bit>

#include "lockstep/base/text/text.h"

namespace lockstep::shm {
namespace {

// Byte 0: kind, 1: dtype, 2: operation, 3: one more than the kind of the whole; the upper half:
// root.
std::uint64_t packed(const Call& call) {
  const auto whole = call.name.kind ? static_cast<std::uint64_t>(*call.name.kind) + 1 : 0;
  return static_cast<std::uint64_t>(call.kind) | static_cast<std::uint64_t>(call.dtype) << 8 |
         static_cast<std::uint64_t>(call.op) << 16 | (whole & 0xff) << 24 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root)) << 32;
}

bool reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}

}  // namespace

const char* name_of(Kind kind) {
  constexpr std::array kNames{"barrier",    "all_reduce", "reduce",  "reduce_scatter", "broadcast",
                              "all_gather", "gather",     "scatter", "all_to_all"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "an unknown collective";
}

bool Call::matches(const Call& other) const {
  return packed(*this) == packed(other) && count == other.count;
}

std::string Call::text(std::uint64_t sequence) const {
  std::string inside;
  const auto add = [&](const std::string& part) { inside += (inside.empty() ? "" : ", ") + part; };
  if (reduces(kind)) {
    add(name_of(op));
  }
  if (kind != Kind::kBarrier) {
    add(name_of(dtype));
    if (count > 0) {
      const auto size = dtype <= DType::kOther ? size_of(dtype) : 1;  // A peer may write anything.
      add(counted(static_cast<std::int64_t>(count), "element") + ": " +
          std::to_string(count * size) + " bytes");
    }
  }
  if (root >= 0) {
    add("root " + std::to_string(root));
  }
  const std::string number =
      sequence == 0 ? "" : " #" + std::to_string(name.number == 0 ? sequence : name.number);
  const std::string space = sequence == 0 ? "" : " ";
  return name_of(name.kind.value_or(kind)) + number +
         (inside.empty() ? "" : space + "(" + inside + ")");
}

void Call::write_to(Announcement& announcement, std::uint64_t sequence) const {
  constexpr auto kRelaxed = std::memory_order_relaxed;  // Published by the phase that follows.
  announcement.sequence.store(sequence, kRelaxed);
  announcement.kind.store(packed(*this), kRelaxed);
  announcement.count.store(count, kRelaxed);
  announcement.place.store(place, kRelaxed);
  announcement.factor.store(std::bit_cast<std::uint64_t>(factor), kRelaxed);
  announcement.number.store(name.number, kRelaxed);
}

Call Call::read_from(const Announcement& announcement) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const auto kind = announcement.kind.load(kRelaxed);
  const auto whole = kind >> 24 & 0xff;
  return {
      .kind = static_cast<Kind>(kind & 0xff),
      .dtype = static_cast<DType>(kind >> 8 & 0xff),
      .op = static_cast<ReduceOp>(kind >> 16 & 0xff),
      .root = static_cast<int>(static_cast<std::uint32_t>(kind >> 32)),
      .count = announcement.count.load(kRelaxed),
      .place = announcement.place.load(kRelaxed),
      .factor = std::bit_cast<double>(announcement.factor.load(kRelaxed)),
      .name = {.number = announcement.number.load(kRelaxed),
               .kind = whole == 0 ? std::nullopt : std::optional(static_cast<Kind>(whole - 1))}};
}

}  // namespace lockstep::shm
