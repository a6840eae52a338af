#include "lockstep/checkpoint/manifest.h"

#include <cstdio>

#include "lockstep/base/crc32c/crc32c.h"
#include "lockstep/base/error.h"
#include "lockstep/checkpoint/cursor.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kFirstLine = "lockstep checkpoint 1\n";
constexpr std::string_view kEndWord = "lockstep-crc32c ";

std::string hex(std::uint32_t number) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", number);
  return text;
}

std::string line_of(std::string_view record, std::span<const std::byte> bytes) {
  return hex(crc32c(bytes)) + " " + std::to_string(bytes.size()) + " " + std::string(record) + "\n";
}

[[noreturn]] void damaged(const std::string& file, const std::string& what, std::size_t offset) {
  throw IoError("'" + file + "' is damaged: " + in_message(what) + ", at byte " +
                std::to_string(offset) + "; use another copy, such as prev.pt");
}

// The manifest is a function of the other records, so it is written again and compared.
void check_manifest(const std::string& file, const ZipFile& zip, const ZipRecord& manifest,
                    const std::function<std::string(const ZipRecord&)>& tensor_of) {
  auto rest = as_text(manifest.bytes);
  if (!rest.starts_with(kFirstLine)) {
    throw OtherFormat("'" + file + "' has a manifest of another version, expected '" +
                      std::string(kFirstLine.substr(0, kFirstLine.size() - 1)) +
                      "'; read it with the lockstep that wrote it");
  }
  rest.remove_prefix(kFirstLine.size());
  for (const ZipRecord& record : zip.records) {
    if (record.name == kManifest) {
      continue;
    }
    const std::string line = line_of(record.name, record.bytes);
    if (!rest.starts_with(line)) {
      damaged(file,
              "the record '" + std::string(record.name) + "'" + tensor_of(record) +
                  " is not what the manifest says",
              record.offset);
    }
    rest.remove_prefix(line.size());
  }
  if (!rest.empty()) {
    damaged(file, "the manifest names records that are not there",
            manifest.offset + manifest.bytes.size() - rest.size());
  }
}

}  // namespace

Manifest::Manifest() : text_(kFirstLine) {}

void Manifest::add(std::string_view record, std::span<const std::byte> bytes) {
  text_ += line_of(record, bytes);
}

std::string end_comment(std::uint32_t crc32c) { return std::string(kEndWord) + hex(crc32c); }

void check_whole(const std::string& file, const ZipFile& zip, std::span<const std::byte> bytes,
                 const std::function<std::string(const ZipRecord&)>& tensor_of) {
  const ZipRecord* const manifest = zip.find(kManifest);
  for (const ZipRecord& record : zip.records) {
    if (!is_sound(record)) {
      damaged(
          file,
          "the sum of the record '" + std::string(record.name) + "'" + tensor_of(record) +
              " is wrong" +
              (manifest == nullptr ? " (or Python saved it with set_crc32_options(False))" : ""),
          record.offset);
    }
  }
  const std::size_t before = bytes.size() - zip.comment.size();
  if (manifest == nullptr) {
    if (zip.comment.starts_with(kEndWord)) {
      damaged(file, "it ends as ours do, and has no manifest", before);
    }
    return;
  }
  check_manifest(file, zip, *manifest, tensor_of);
  if (zip.comment != end_comment(crc32c(bytes.first(before)))) {
    damaged(file, "its end comment is missing, or not the sum of the bytes before it", before);
  }
}

}  // namespace lockstep::checkpoint
