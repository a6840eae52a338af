#include "lockstep/data/readers/tiny_imagenet.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "tests/data/files.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kBox = "\t0\t32\t44\t62\n";

class TinyImagenetTest : public ::testing::Test {
 protected:
  void add_image(const std::string& name) {
    fs::create_directories(folder_.file("val/images"));
    write_file(folder_.file("val/images/" + name), "no image: files are not opened");
  }
  void annotate(const std::string& text) {
    fs::create_directories(folder_.file("val"));
    write_file(folder_.file("val/val_annotations.txt"), text);
  }
  [[nodiscard]] std::string val() const { return folder_.file("val"); }

  test::TemporaryFolder folder_;
};

std::vector<std::string> files_and_classes(const std::vector<ValAnnotation>& annotations) {
  std::vector<std::string> texts;
  for (const ValAnnotation& annotation : annotations) {
    texts.push_back(std::to_string(annotation.line) + " " + annotation.file + " " +
                    annotation.class_name);
  }
  return texts;
}

TEST(ParseValAnnotations, HasFileAndClassOfEachLine) {
  EXPECT_THAT(
      files_and_classes(parse_val_annotations(
          "val_0.JPEG\tn03444034\t0\t32\t44\t62\r\n\nval_1.JPEG\tn04067472\t52\t55\t57\t59", "x")),
      ElementsAre("1 val_0.JPEG n03444034", "3 val_1.JPEG n04067472"));
}

TEST(ParseValAnnotations, ABadLineIsNamedWithWhatIsExpected) {
  const auto refused = [](const std::string& line, const std::string& what) {
    EXPECT_THAT([&] { parse_val_annotations("a.JPEG\tn1" + std::string(kBox) + line, "the.txt"); },
                ThrowsMessage<IoError>(AllOf(HasSubstr("'the.txt': line 2: "), HasSubstr(what),
                                             HasSubstr("expected"))))
        << line;
  };
  refused("val_1.JPEG n1 0 32 44 62", "1 fields");
  refused("val_1.JPEG\tn1\t0\t32\t44", "5 fields");
  refused("val_1.JPEG\tn1\t0\t32\t44\tx", "field 6 is 'x'");
  refused("val_1.JPEG\tn1\t0\t32\t44\t\x1b[2J", "field 6 is '?[2J'");
  refused("\tn1" + std::string(kBox), "the image is ''");
  refused("../a.JPEG\tn1" + std::string(kBox), "the image is '../a.JPEG'");
  refused("val_1.JPEG\t\t0\t0\t0\t0", "the class is empty");
  refused("a.JPEG\tn2" + std::string(kBox), "'a.JPEG' is in line 1 already");
  EXPECT_THAT([] { parse_val_annotations(" \n", "the.txt"); },
              ThrowsMessage<IoError>(HasSubstr("there is no line")));
}

// What people do who want a folder for each class.
TEST_F(TinyImagenetTest, GivesTheIndexOfAFolderForEachClass) {
  std::string text;
  for (int i = 0; i < 9; ++i) {
    const std::string name = "val_" + std::to_string(i) + ".JPEG";
    const std::string class_name = "n" + std::to_string(7 * i % 3);
    add_image(name);
    text += name + "\t" + class_name + kBox;
    fs::create_directories(folder_.file("moved/" + class_name));
    write_file(folder_.file("moved/" + class_name + "/" + name), "");
  }
  annotate(text);
  const auto moved = index_image_folder(folder_.file("moved"));
  const auto index = index_tiny_imagenet_val(val(), moved.classes);
  EXPECT_EQ(index.root, val());
  EXPECT_EQ(index.classes, moved.classes);
  EXPECT_EQ(index.class_counts, moved.class_counts);
  ASSERT_EQ(index.images.size(), moved.images.size());
  for (std::size_t i = 0; i < moved.images.size(); ++i) {
    EXPECT_EQ(index.images[i].label, moved.images[i].label);
    EXPECT_EQ(index.images[i].path, "images/" + moved.images[i].path.substr(3));
  }
  EXPECT_THAT(index.skipped, ElementsAre());
}

TEST_F(TinyImagenetTest, IsRecognisedByItsAnnotations) {
  add_image("val_0.JPEG");
  EXPECT_FALSE(is_tiny_imagenet_val(val()));
  annotate("val_0.JPEG\tn1" + std::string(kBox));
  EXPECT_TRUE(is_tiny_imagenet_val(val()));
}

TEST_F(TinyImagenetTest, SaysWhatHasNoLineOrNoFile) {
  for (const char* name : {"val_0.JPEG", "val_9.JPEG", "notes.txt"}) {
    add_image(name);
  }
  annotate("val_0.JPEG\tn1" + std::string(kBox) + "val_5.JPEG\tn1" + kBox);
  const auto index = index_tiny_imagenet_val(val(), {"n1"});
  EXPECT_EQ(index.images.size(), 1U);
  EXPECT_THAT(index.summary(),
              AllOf(HasSubstr("but not in the folder (images/val_5.JPEG)"),
                    HasSubstr("it is not in val_annotations.txt (images/val_9.JPEG)"),
                    HasSubstr("does not end like an image's (images/notes.txt)")));
}

TEST_F(TinyImagenetTest, AClassThatIsNotTrainedAndOneWithoutImagesAreNamed) {
  add_image("val_0.JPEG");
  annotate("val_0.JPEG\tn1" + std::string(kBox));
  EXPECT_THAT(
      [&] { index_tiny_imagenet_val(val(), {"n0", "n2"}); },
      ThrowsMessage<IoError>(HasSubstr("line 1: the class 'n1' is none of the training part's 2")));
  EXPECT_THAT([&] { index_tiny_imagenet_val(val(), {"n0", "n1"}); },
              ThrowsMessage<IoError>(HasSubstr("no image of the class 'n0'")));
  EXPECT_THAT(index_tiny_imagenet_val(val(), {"n0", "n1"}, {.allow_empty = true}).class_counts,
              ElementsAre(0, 1));
}

TEST_F(TinyImagenetTest, AMissingFolderIsNamed) {
  annotate("val_0.JPEG\tn1" + std::string(kBox));
  EXPECT_THAT([&] { index_tiny_imagenet_val(val(), {"n1"}); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("val/images'"), HasSubstr("No such file"))));
}

}  // namespace
}  // namespace lockstep::data
