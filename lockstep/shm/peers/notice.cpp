#include "lockstep/shm/peers/notice.h"

#include <sys/random.h>

#include <array>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/text/text.h"
#include "lockstep/shm/segments/layout.h"

namespace lockstep::shm {
namespace {

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

struct PackedHello {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t rank = 0;
  std::array<char, 32> secret{};
};
static_assert(std::has_unique_object_representations_v<PackedHello>);
static_assert(sizeof(PackedHello) == kHelloBytes);

// Two containers may have one name: the identity tells them apart.
std::string host_of(const Notice& notice) {
  return "'" + notice.host + "' (" + notice.host_id + ")";
}

}  // namespace

std::string new_secret() {
  std::array<char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw_errno("shared memory: random bytes");
  }
  return to_hex({bytes.data(), bytes.size()});
}

std::string notice_key(int rank) { return "shm/" + std::to_string(rank); }

std::string notice_text(const Notice& notice) {
  return std::to_string(kVersion) + "\n" + notice.socket + "\n" + notice.secret + "\n" +
         std::to_string(notice.pid) + "\n" + notice.host_id + "\n" + notice.host;
}

std::optional<Notice> parse_notice(const std::string& text) {
  const auto lines = split(text, '\n');
  constexpr std::size_t kLines = 6;
  if (lines.size() != kLines || parse_int(lines[0]) != kVersion) {
    return std::nullopt;
  }
  return Notice{.socket = lines[1],
                .secret = lines[2],
                .pid = static_cast<pid_t>(parse_int(lines[3]).value_or(0)),
                .host_id = lines[4],
                .host = lines[5]};
}

std::vector<Notice> read_notices(Board& board, int size, const Notice& own,
                                 const Reading& reading) {
  std::vector<Notice> notices;
  for (int rank = 0; rank < size; ++rank) {
    const auto notice = parse_notice(board.read(notice_key(rank), reading.deadline));
    if (!notice) {
      throw PeerError(reading.what + "rank " + std::to_string(rank) +
                      " speaks another version of the protocol than this one (" +
                      std::to_string(kVersion) + "); use the same lockstep on all ranks");
    }
    notices.push_back(*notice);
  }
  for (int rank = 0; rank < size; ++rank) {
    const auto& notice = notices[static_cast<std::size_t>(rank)];
    if (notice.host_id != own.host_id) {
      throw UsageError(reading.what + "this rank is on host " + host_of(own) + " and rank " +
                       std::to_string(rank) + " on " + host_of(notice) +
                       ", which cannot share memory (another machine, network or pid namespace, or "
                       "user); use the backend lockstep or gloo");
    }
  }
  return notices;
}

std::string hello_text(const Hello& hello) {
  PackedHello packed{.rank = static_cast<std::uint32_t>(hello.rank)};
  hello.secret.copy(packed.secret.data(), packed.secret.size());
  return {reinterpret_cast<const char*>(&packed), sizeof packed};
}

std::optional<Hello> parse_hello(const std::string& text) {
  PackedHello packed;
  if (text.size() != sizeof packed) {
    return std::nullopt;
  }
  std::memcpy(&packed, text.data(), sizeof packed);
  if (packed.magic != kMagic || packed.version != kVersion || packed.rank >= kMaxRanks) {
    return std::nullopt;
  }
  return Hello{.rank = static_cast<int>(packed.rank),
               .secret = {packed.secret.data(), packed.secret.size()}};
}

}  // namespace lockstep::shm
