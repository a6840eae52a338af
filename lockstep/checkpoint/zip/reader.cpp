#include "lockstep/checkpoint/zip/reader.h"

#include <zlib.h>

#include <algorithm>
#include <unordered_set>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/cursor.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kLocatorBytes = 20;
constexpr std::uint64_t kEnd64Bytes = 56;
constexpr std::uint64_t kLocalBytes = 30;
constexpr std::uint64_t kInZip64 = 0xFFFFFFFF;
constexpr std::uint64_t kMostRecords = 1'000'000;

struct Directory {
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t end = 0;  // Where the end records begin.
  std::string_view comment;
};

void expect(Cursor& cursor, std::string_view magic, std::string_view what) {
  if (cursor.text(magic.size(), what) != magic) {
    cursor.fail("does not have " + std::string(what) + " where it must be");
  }
}

Directory read_end64(const std::string& file, std::span<const std::byte> bytes, std::uint64_t end,
                     Directory directory) {
  if (end < kLocatorBytes + kEnd64Bytes ||
      as_text(bytes.subspan(end - kLocatorBytes, 4)) != "PK\x06\x07") {
    return directory;  // There is none: numbers fit the short record.
  }
  Cursor locator("'" + file + "'", bytes.subspan(end - kLocatorBytes + 8, 8),
                 end - kLocatorBytes + 8);
  const std::uint64_t start = locator.number(8, "the place of the end record");
  if (start != end - kLocatorBytes - kEnd64Bytes) {
    locator.fail("says that the end record is at " + std::to_string(start) + ", expected " +
                 std::to_string(end - kLocatorBytes - kEnd64Bytes));
  }
  Cursor cursor("'" + file + "'", bytes.subspan(start, kEnd64Bytes), start);
  expect(cursor, "PK\x06\x06", "the zip64 end record");
  cursor.take(28, "the end record");
  directory.records = cursor.number(8, "the number of records");
  directory.bytes = cursor.number(8, "the size of the directory");
  directory.offset = cursor.number(8, "the place of the directory");
  directory.end = start;
  return directory;
}

Directory read_end(const std::string& file, std::span<const std::byte> bytes) {
  if (bytes.size() < kEndBytes) {
    fail_at(file, "is too short for an archive: " + std::to_string(bytes.size()) + " bytes", 0);
  }
  // The record ends with a comment whose length it says: only one place fits.
  const std::uint64_t lowest =
      bytes.size() > kEndBytes + 0xFFFF ? bytes.size() - kEndBytes - 0xFFFF : 0;
  for (std::uint64_t at = bytes.size() - kEndBytes + 1; at-- > lowest;) {
    if (as_text(bytes.subspan(at, 4)) != std::string_view("PK\x05\x06", 4)) {
      continue;
    }
    Cursor cursor("'" + file + "'", bytes.subspan(at), at);
    cursor.take(10, "the end record");
    Directory directory;
    directory.records = cursor.number(2, "the number of records");
    directory.bytes = cursor.number(4, "the size of the directory");
    directory.offset = cursor.number(4, "the place of the directory");
    directory.end = at;
    const std::uint64_t comment = cursor.number(2, "the length of the comment");
    if (comment != cursor.left()) {
      continue;
    }
    directory.comment = cursor.text(comment, "the comment");
    return read_end64(file, bytes, at, directory);
  }
  fail_at(file, "has no end record: it is cut off, or no zip archive", bytes.size());
}

struct Header {
  std::string_view path;
  std::uint64_t flags = 0;
  std::uint64_t crc32 = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // Where the local header is.
};

// What did not fit the short fields.
void read_zip64(Cursor extra, Header& header) {
  while (extra.left() >= 4) {
    const std::uint64_t id = extra.number(2, "a field");
    const std::uint64_t size = extra.number(2, "a field");
    if (id != 1) {
      extra.take(size, "a field");
      continue;
    }
    const bool both = header.bytes == kInZip64;
    if (both) {
      header.bytes = extra.number(8, "a size");
      if (extra.number(8, "a size") != header.bytes) {
        extra.fail("has a record of two sizes");
      }
    }
    if (header.offset == kInZip64) {
      header.offset = extra.number(8, "an offset");
    }
    return;
  }
}

Header read_header(const std::string& file, Cursor& cursor) {
  expect(cursor, "PK\x01\x02", "an entry of the directory");
  cursor.take(4, "versions");
  Header header;
  header.flags = cursor.number(2, "flags");
  const std::uint64_t method = cursor.number(2, "a method");
  cursor.take(4, "a time");
  header.crc32 = cursor.number(4, "a sum");
  const std::uint64_t packed = cursor.number(4, "a size");
  header.bytes = cursor.number(4, "a size");
  const std::uint64_t name = cursor.number(2, "a length");
  const std::uint64_t extra = cursor.number(2, "a length");
  const std::uint64_t comment = cursor.number(2, "a length");
  cursor.take(8, "attributes");
  header.offset = cursor.number(4, "an offset");
  header.path = cursor.text(name, "a name");
  const std::size_t extra_at = cursor.offset();
  read_zip64(Cursor("'" + file + "'", cursor.take(extra, "fields"), extra_at), header);
  cursor.take(comment, "a comment");
  if (method != 0 || packed != std::min(header.bytes, kInZip64) || (header.flags & 1) != 0) {
    cursor.fail("has the record '" + std::string(header.path) +
                "' packed or encrypted, expected stored ones, as torch.save writes them; of a "
                "TorchScript archive save the state_dict()");
  }
  return header;
}

// `limit`: where the directory begins.
ZipRecord read_record(const std::string& file, std::span<const std::byte> bytes,
                      const Header& header, std::uint64_t limit) {
  const std::string record = "has the record '" + std::string(header.path) + "' ";
  if (header.offset > limit || limit - header.offset < kLocalBytes) {
    fail_at(file, record + "outside of its data", header.offset);
  }
  Cursor cursor("'" + file + "'", bytes.subspan(header.offset, limit - header.offset),
                header.offset);
  expect(cursor, "PK\x03\x04", "the header of a record");
  cursor.take(2, "a version");
  const std::uint64_t flags = cursor.number(2, "flags");
  cursor.take(18, "a header");
  const std::uint64_t name = cursor.number(2, "a length");
  const std::uint64_t extra = cursor.number(2, "a length");
  if (cursor.text(name, "a name") != header.path || flags != header.flags) {
    cursor.fail(record + "under another name, or with other flags, in its own header");
  }
  cursor.take(extra, "fields");
  ZipRecord result;
  result.offset = cursor.offset();
  result.bytes = cursor.take(header.bytes, "the record '" + std::string(header.path) + "'");
  result.crc32 = static_cast<std::uint32_t>(header.crc32);
  return result;
}

}  // namespace

const ZipRecord* ZipFile::find(std::string_view record) const {
  const auto found = std::ranges::find(records, record, &ZipRecord::name);
  return found == records.end() ? nullptr : &*found;
}

ZipFile read_zip(const std::string& file, std::span<const std::byte> bytes) {
  const Directory directory = read_end(file, bytes);
  if (directory.offset > directory.end || directory.bytes != directory.end - directory.offset) {
    fail_at(file, "has a directory that does not end where the end record begins", directory.end);
  }
  if (directory.records > kMostRecords || directory.records * 46 > directory.bytes) {
    fail_at(file,
            "counts " + std::to_string(directory.records) + " records in a directory of " +
                std::to_string(directory.bytes) + " bytes",
            directory.end);
  }
  ZipFile zip;
  zip.comment = directory.comment;
  Cursor cursor("'" + file + "'", bytes.subspan(directory.offset, directory.bytes),
                directory.offset);
  std::unordered_set<std::string_view> paths;
  for (std::uint64_t i = 0; i < directory.records; ++i) {
    const Header header = read_header(file, cursor);
    const auto slash = header.path.find('/');
    const auto folder = header.path.substr(0, slash);
    if (slash == std::string_view::npos || (i > 0 && folder != zip.folder)) {
      cursor.fail("has the record '" + std::string(header.path) +
                  "', expected all records in one folder, as torch.save writes them");
    }
    if (!paths.insert(header.path).second) {
      cursor.fail("has two records '" + std::string(header.path) + "'");
    }
    zip.folder = folder;
    zip.records.push_back(read_record(file, bytes, header, directory.offset));
    zip.records.back().name = header.path.substr(slash + 1);
  }
  if (cursor.left() != 0) {
    cursor.fail("has " + std::to_string(cursor.left()) + " bytes behind its last entry");
  }
  std::ranges::sort(zip.records, {}, &ZipRecord::offset);
  for (std::size_t i = 1; i < zip.records.size(); ++i) {
    const auto& before = zip.records[i - 1];
    if (zip.records[i].offset < before.offset + before.bytes.size() + kLocalBytes) {
      fail_at(file,
              "has overlapping records '" + std::string(before.name) + "' and '" +
                  std::string(zip.records[i].name) + "'",
              zip.records[i].offset);
    }
  }
  return zip;
}

bool is_sound(const ZipRecord& record) {
  return ::crc32_z(0, reinterpret_cast<const Bytef*>(record.bytes.data()), record.bytes.size()) ==
         record.crc32;
}

}  // namespace lockstep::checkpoint
