#include "lockstep/data/readers/cifar.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/data/files.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

CifarRecords load_cifar_text(const std::string& content, CifarKind kind) {
  CifarRecords records;
  load_cifar(MemoryFile(content).path(), kind, records);
  return records;
}

std::string image_of(char pixel) { return std::string(kCifarImageBytes, pixel); }

TEST(LoadCifar, ReadsLabelsAndImages) {
  const std::string file = "\x03" + image_of('a') + "\x09" + image_of('b');
  for (const auto& content : {file, gzip(file)}) {
    const CifarRecords records = load_cifar_text(content, CifarKind::kCifar10);
    EXPECT_THAT(records.labels, ElementsAre(3, 9));
    EXPECT_THAT(records.coarse_labels, IsEmpty());
    ASSERT_EQ(records.images.size(), 2 * kCifarImageBytes);
    EXPECT_EQ(records.images[kCifarImageBytes - 1], 'a');
    EXPECT_EQ(records.images[kCifarImageBytes], 'b');
  }
}

TEST(LoadCifar, ReadsFineAndCoarseLabels) {
  const CifarRecords records =
      load_cifar_text(std::string{19, 99} + image_of('a'), CifarKind::kCifar100);
  EXPECT_THAT(records.labels, ElementsAre(99));
  EXPECT_THAT(records.coarse_labels, ElementsAre(19));
}

TEST(LoadCifar, WhatIsWrongIsNamed) {
  const auto refuses = [](const std::string& content, CifarKind kind, const std::string& part) {
    EXPECT_THAT([&] { load_cifar_text(content, kind); }, ThrowsMessage<IoError>(HasSubstr(part)));
  };
  const std::string sound = "\x03" + image_of('a');
  refuses(sound + "\x0a" + image_of('b'), CifarKind::kCifar10,
          "record 1 has the label 10, expected 0 to 9");
  refuses(sound + sound.substr(0, 100), CifarKind::kCifar10,
          "record 1 has 100 bytes, expected 3073");
  refuses("", CifarKind::kCifar10, "record 0 has 0 bytes, expected 3073; is the file whole?");
  refuses(sound, CifarKind::kCifar100, "record 0 has 3073 bytes, expected 3074");
  refuses(std::string{20, 1} + image_of('a'), CifarKind::kCifar100, "label 20, expected 0 to 19");
  refuses(std::string{1, 100} + image_of('a'), CifarKind::kCifar100, "label 100, expected 0 to 99");
}

}  // namespace
}  // namespace lockstep::data
