#include "lockstep/checkpoint/zip/writer.h"

#include <zlib.h>

#include <algorithm>

#include "lockstep/base/crc32c/crc32c.h"
#include "lockstep/checkpoint/cursor.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kShortLimit = 0xFFFFFFFF;
constexpr std::uint16_t kUtf8 = 0x0800;
constexpr std::uint16_t kSumsFollow = 0x0008;  // Behind the record: a header is written before it.

class Block {
 public:
  Block& text(std::string_view text) {
    content_ += text;
    return *this;
  }
  Block& number(std::uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      content_ += static_cast<char>(i < 8 ? number >> (8 * i) : 0);
    }
    return *this;
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return as_bytes(content_); }

 private:
  std::string content_;
};

std::uint16_t flags_of(std::uint64_t bytes) { return bytes == 0 ? kUtf8 : kUtf8 | kSumsFollow; }

std::uint64_t shortened(std::uint64_t number) { return std::min(number, kShortLimit); }

// Torch pads with a field "FB" in front of the record.
std::string padding(std::uint64_t before) {
  const std::uint64_t start = before + 4;
  const std::uint64_t bytes = (kAlignment - start % kAlignment) % kAlignment;
  return "FB" + std::string{static_cast<char>(bytes), '\0'} + std::string(bytes, 'Z');
}

}  // namespace

void ZipWriter::write(std::span<const std::byte> bytes) {
  crc32c_ = extend_crc32c(crc32c_, bytes);
  sink_(bytes);
  written_ += bytes.size();
}

void ZipWriter::add(std::string_view record, std::span<const std::byte> bytes) {
  Entry entry{folder_ + "/" + std::string(record), bytes.size(), written_, 0};
  const bool zip64 = entry.bytes >= kShortLimit || entry.offset >= kShortLimit;
  Block field;
  if (zip64) {
    field.number(1, 2)
        .number(24, 2)
        .number(entry.bytes, 8)
        .number(entry.bytes, 8)
        .number(entry.offset, 8);
  }
  const std::string extra = std::string(as_text(field.bytes())) +
                            padding(written_ + 30 + entry.path.size() + field.bytes().size());
  Block header;
  header.text("PK\x03\x04").number(0, 2).number(flags_of(entry.bytes), 2).number(0, 18);
  header.number(entry.path.size(), 2).number(extra.size(), 2).text(entry.path).text(extra);
  write(header.bytes());
  entry.crc32 = static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  write(bytes);
  if (!bytes.empty()) {
    const int width = zip64 ? 8 : 4;
    write(Block()
              .text("PK\x07\x08")
              .number(entry.crc32, 4)
              .number(entry.bytes, width)
              .number(entry.bytes, width)
              .bytes());
  }
  entries_.push_back(std::move(entry));
}

void ZipWriter::finish(std::uint16_t comment_bytes) {
  const std::uint64_t start = written_;
  for (const Entry& entry : entries_) {
    Block fields;
    if (entry.bytes >= kShortLimit) {
      fields.number(entry.bytes, 8).number(entry.bytes, 8);
    }
    if (entry.offset >= kShortLimit) {
      fields.number(entry.offset, 8);
    }
    Block extra;
    if (!fields.bytes().empty()) {
      extra.number(1, 2).number(fields.bytes().size(), 2).text(as_text(fields.bytes()));
    }
    Block header;
    header.text("PK\x01\x02").number(0, 4).number(flags_of(entry.bytes), 2).number(0, 6);
    header.number(entry.crc32, 4);
    header.number(shortened(entry.bytes), 4).number(shortened(entry.bytes), 4);
    header.number(entry.path.size(), 2).number(extra.bytes().size(), 2).number(0, 10);
    header.number(shortened(entry.offset), 4).text(entry.path).text(as_text(extra.bytes()));
    write(header.bytes());
  }
  const std::uint64_t end = written_;
  const std::uint64_t count = entries_.size();
  Block block;
  block.text("PK\x06\x06").number(44, 8).number(0x031E, 2).number(0x2D, 2).number(0, 8);
  block.number(count, 8).number(count, 8).number(end - start, 8).number(start, 8);
  block.text("PK\x06\x07").number(0, 4).number(end, 8).number(1, 4);
  block.text("PK\x05\x06").number(0, 4);
  block.number(std::min<std::uint64_t>(count, 0xFFFF), 2);
  block.number(std::min<std::uint64_t>(count, 0xFFFF), 2);
  block.number(shortened(end - start), 4).number(shortened(start), 4).number(comment_bytes, 2);
  write(block.bytes());
}

void ZipWriter::comment(std::string_view text) { write(as_bytes(text)); }

}  // namespace lockstep::checkpoint
