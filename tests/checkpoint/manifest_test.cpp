#include "lockstep/checkpoint/manifest.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/checkpoint/values.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void check_file(const std::string& file) {
  check_whole("f.pt", read_zip("f.pt", as_bytes(file)), as_bytes(file),
              [](const ZipRecord&) { return std::string(" (tensor 't')"); });
}

std::string with_records(const std::vector<std::pair<std::string, std::string>>& records,
                         bool comment) {
  std::string file;
  ZipWriter zip([&](std::span<const std::byte> bytes) { file += as_text(bytes); }, "x");
  for (const auto& [name, content] : records) {
    zip.add(name, as_bytes(content));
  }
  zip.finish(comment ? kEndCommentBytes : 0);
  if (comment) {
    zip.comment(end_comment(zip.crc32c()));
  }
  return file;
}

std::string manifest_of(std::string_view record, std::string_view content) {
  Manifest manifest;
  manifest.add(record, as_bytes(content));
  return manifest.text();
}

TEST(EndComment, HasAFixedLength) { EXPECT_EQ(end_comment(7).size(), kEndCommentBytes); }

TEST(Manifest, HasALineForEachRecord) {
  EXPECT_EQ(manifest_of("a", "123456789"), "lockstep checkpoint 1\ne3069283 9 a\n");  // RFC 3720.
}

TEST(CheckWhole, AcceptsOursAndTorchs) {
  EXPECT_NO_THROW(check_file(pt_bytes(small_checkpoint())));
  EXPECT_NO_THROW(check_file(seed("pt/torchvision.pt")));
}

TEST(CheckWhole, AFileWithAManifestNeedsTheEndComment) {
  const std::string manifest(kManifest);
  const auto sound = with_records({{"a", "x"}, {manifest, manifest_of("a", "x")}}, true);
  EXPECT_NO_THROW(check_file(sound));
  const auto cut = with_records({{"a", "x"}, {manifest, manifest_of("a", "x")}}, false);
  EXPECT_THAT([&] { check_file(cut); },
              ThrowsMessage<IoError>(HasSubstr("'f.pt' is damaged: its end comment is missing")));
  const auto alone = with_records({{"a", "x"}}, true);
  EXPECT_THAT([&] { check_file(alone); }, ThrowsMessage<IoError>(HasSubstr("has no manifest")));
}

TEST(CheckWhole, TheManifestAndTheRecordsMustAgree) {
  const std::string manifest(kManifest);
  const auto expect = [&](const std::string& text, const char* what) {
    const auto file = with_records({{"a", "x"}, {manifest, text}}, true);
    EXPECT_THAT([&] { check_file(file); }, ThrowsMessage<IoError>(HasSubstr(what)));
  };
  expect(manifest_of("a", "y"), "the record 'a' (tensor 't') is not what the manifest says");
  expect(manifest_of("b", "x"), "the record 'a'");
  expect(manifest_of("a", "x") + "more", "records that are not there");
  expect("lockstep checkpoint 2\n", "another version");
}

}  // namespace
}  // namespace lockstep::checkpoint
